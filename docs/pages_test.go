package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"purelb.io/purelb/internal/testing/apitest"
)

// Each page has its place in the navigation of the site, and can be read at one sitting.
func TestPagesHaveAPlaceAndALimit(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	moves, err := filepath.Glob("migrate/*.md")
	if err != nil {
		t.Fatal(err)
	}
	navigation := apitest.Text(t, "tools/site/hugo.toml")
	for _, page := range append(pages, moves...) {
		if name := "'" + strings.TrimSuffix(page, ".md") + "'"; !strings.Contains(navigation, name) {
			t.Errorf("tools/site/hugo.toml: no section has the page %s", name)
		}
		limit := 3500
		switch {
		case strings.HasPrefix(page, "migrate/"):
			limit = 400
		case page == "refusals.md": // nobody reads it from the top: it has a section for each reason
			limit = 5000
		}
		if n := len(strings.Fields(byHand(apitest.Text(t, "docs/"+page)))); n > limit {
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
