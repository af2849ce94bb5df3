package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"purelb.io/purelb/internal/testing/apitest"
)

// Each page can be read at one sitting. What is generated does not count.
func TestPagesHaveALimit(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	moves, err := filepath.Glob("migrate/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, moves...) {
		limit := 3500
		switch {
		case strings.HasPrefix(page, "migrate/"):
			limit = 400
		case page == "refusals.md": // nobody reads it from the top: it has a section for each reason
			limit = 5000
		}
		text := apitest.Text(t, "docs/"+page)
		if n := len(strings.Fields(byHand(text))); n > limit && !strings.HasPrefix(text, "<!-- Generated") {
			t.Errorf("%s has %d words, want at most %d", page, n, limit)
		}
	}
}

var written = regexp.MustCompile(`(?s)<!-- (?:The table|The test|worlds:|generated).*?<!-- (?i:the end|end).*?-->`)

// byHand returns a page without the tables that tests and programs write, and without code.
func byHand(text string) string {
	var all strings.Builder
	for i, part := range strings.Split(written.ReplaceAllString(text, ""), "```") {
		if i%2 == 0 {
			all.WriteString(part)
		}
	}
	return all.String()
}
