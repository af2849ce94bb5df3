package main

import (
	"fmt"
	"testing"

	"purelb.io/purelb/internal/testing/expect"
)

// Each document knows its line.
func TestADocumentIsNeverLost(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"with comments and empty lines", "# first\na: 1\n---\n# second\n\na: 1\n---\n\na: 1\n", []string{"# first\na: 1 at 1", "# second\n\na: 1 at 4", "a: 1 at 9"}},
		{"behind the separator", "a: 1\n--- {b: 1}\n---\nc: 1\n", []string{"a: 1 at 1", "{b: 1} at 2", "c: 1 at 4"}},
		{"beside a comment", "a: 1\n--- # Source: x\nb: 1\n", []string{"a: 1 at 1", "# Source: x\nb: 1 at 2"}},
		{"with the ends of lines of Windows", "a: 1\r\n---\r\nb: 1\r\n", []string{"a: 1 at 1", "b: 1 at 3"}},
		{"with a line of dashes", "a: 1\n-----\n---\nb: 1\n", []string{"a: 1\n----- at 1", "b: 1 at 4"}},
		{"without an end of line", "---\na: 1", []string{"a: 1 at 2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, d := range split("x", []byte(tt.text)) {
				got = append(got, fmt.Sprintf("%s at %d", d.text, d.line))
			}
			expect.Equal(t, "documents", got, tt.want)
		})
	}
}
