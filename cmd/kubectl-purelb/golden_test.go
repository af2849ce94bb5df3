package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"purelb.io/purelb/internal/testing/expect"
)

var update = flag.Bool("update", false, "write the answers into testdata/golden")

// The answers of every command to recorded worlds. The first line of a golden file is
// the command line, and the last one the code to exit with.
func TestGolden(t *testing.T) {
	for path, text := range texts(t, "testdata/golden/*.txt") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			line, _, _ := strings.Cut(text, "\n")
			var out, errs bytes.Buffer
			code := run(t.Context(), strings.Fields(line)[3:], strings.NewReader(""), &out, &errs) // after "$ kubectl purelb"
			golden(t, path, fmt.Sprintf("%s\n%s%sexit code %d\n", line, out.String(), errs.String(), code))
		})
	}
}

// offline runs a command that needs no cluster. It returns the answer with what is said beside it.
func offline(t *testing.T, input string, args ...string) (out string, code int) {
	t.Helper()
	var text bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(input), &text, &text)
	return text.String(), code
}

// golden compares got with the text at path, or writes it there.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		expect.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	expect.NoError(t, err)
	expect.Equal(t, path, got, string(want))
}
