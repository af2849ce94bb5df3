package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	linked   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headed   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	anchored = regexp.MustCompile(`<a id="([^"]+)">`)
	unnamed  = regexp.MustCompile(`[^\w\- ]`)
)

// A link in a page leads to a file of this repository and to a heading in it.
func TestLinksLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no documentation here: %v", err)
	}
	for _, others := range []string{"../*.md", "migrate/*.md"} {
		more, err := filepath.Glob(others)
		if err != nil || len(more) == 0 {
			t.Fatal("no pages", others, err)
		}
		pages = append(pages, more...)
	}
	anchors := map[string]map[string]bool{}
	for _, page := range pages {
		anchors[page] = anchorsOf(prose(t, page))
	}
	for _, page := range pages {
		for _, link := range matches(linked, prose(t, page)) {
			if strings.Contains(link, ":") {
				continue // another host
			}
			file, anchor, _ := strings.Cut(link, "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s: %v", page, link, err)
			}
			if known := anchors[target]; anchor != "" && known != nil && !known[anchor] {
				t.Errorf("%s: %s: the page has no such heading", page, link)
			}
		}
	}
}

// prose returns a page without its blocks of code.
func prose(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for i, part := range strings.Split(string(text), "```") {
		if i%2 == 0 {
			all.WriteString(part)
		}
	}
	return all.String()
}

// anchorsOf returns the anchors of a page: those that it names, and those that GitHub makes of its headings.
func anchorsOf(text string) map[string]bool {
	all := map[string]bool{}
	for _, name := range matches(anchored, text) {
		all[name] = true
	}
	for _, heading := range matches(headed, text) {
		all[strings.ReplaceAll(unnamed.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")] = true
	}
	return all
}
