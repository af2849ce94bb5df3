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
	texts, anchors := map[string]string{}, map[string]map[string]bool{}
	for page, text := range pages(t, "*.md", "../*.md", "migrate/*.md") {
		texts[page], _ = split(text)
		anchors[page] = anchorsOf(texts[page])
	}
	for page, text := range texts {
		for _, link := range matches(linked, text) {
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
