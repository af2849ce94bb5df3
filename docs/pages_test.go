package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"purelb.io/purelb/internal/testing/apitest"
)

// A person can read each page at one sitting, and the manual in a day.
func TestTheManualIsShort(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	moves, err := filepath.Glob("migrate/*.md")
	if err != nil {
		t.Fatal(err)
	}
	all := 0
	for _, page := range append(pages, moves...) {
		limit := 3500
		if strings.HasPrefix(page, "migrate/") {
			limit = 400
		}
		n := len(word.FindAllString(byHand(apitest.Text(t, "docs/"+page)), -1))
		if n > limit {
			t.Errorf("%s has %d words, want at most %d", page, n, limit)
		}
		all += n
	}
	if all > 30_000 {
		t.Errorf("all pages have %d words, want at most 30,000", all)
	}
}

var (
	word = regexp.MustCompile(`\S*[\pL\pN]\S*`)
	// Tables that tests and programs write, code, and messages of programs, which tests compare.
	copied = regexp.MustCompile("(?s)<!-- (?:The table|The test|worlds:).*?<!-- (?i:the end|end).*?-->|```.*?```|(?m:^> .*?$)")
)

// byHand returns what a person has written on a page, and has to keep true.
func byHand(text string) string {
	if strings.HasPrefix(text, "<!-- Generated") {
		return ""
	}
	return copied.ReplaceAllString(text, "")
}
