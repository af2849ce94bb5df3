package main

import (
	"context"
	"io"
	"strings"
	"testing"
)

// answering is a stream that answers with a text.
type answering string

func (a answering) Stream(context.Context) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(string(a))), nil
}

// Of a page the beginning is kept, and of a log the end, without half a line. A page of one line is not empty.
func TestCutFilesKeepWhatMattersMost(t *testing.T) {
	state := `{"delayed":[` + strings.Repeat(`{"service":"default/web"},`, 6<<20/26)
	lines := strings.Repeat(strings.Repeat("a line of a log ", 64)+"\n", 20<<10)
	for _, tt := range []struct {
		name, text, begins, ends string
		part                     part
		most                     int
		cut                      bool
	}{
		{"a page of one line", state, `{"delayed":[{`, `{"service":"default/web"},`, beginning, mostOfPage, true},
		{"a page without a comma", strings.Repeat("x", 6<<20), "xx", "xx", beginning, mostOfPage, true},
		{"a page that fits", state[:3<<20], `{"delayed":[{`, state[3<<20-20 : 3<<20], beginning, mostOfPage, false},
		{"a long log", "password=first\n" + lines + "the last line\n", "a line", "\nthe last line\n", end, mostOfLog, true},
		{"a log that fits", "first\nlast\n", "first\n", "last\n", end, mostOfLog, false},
	} {
		got := read(t.Context(), tt.name, answering(tt.text), tt.part)
		text := string(got.text)
		if got.err != nil || got.cut != tt.cut || !strings.HasPrefix(text, tt.begins) || !strings.HasSuffix(text, tt.ends) || len(text) > tt.most || tt.cut && len(text) < tt.most-2000 {
			t.Errorf("%s: %d bytes, cut %t, %v; it begins with %.20q and ends with %q", tt.name, len(text), got.cut, got.err, text, text[max(0, len(text)-20):])
		}
	}
}
