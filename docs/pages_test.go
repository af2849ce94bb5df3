package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"purelb.io/purelb/internal/testing/expect"
)

// pages returns the texts of the files that match a pattern, by their names.
func pages(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no file matches %s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			expect.NoError(t, err)
			all[file] = string(text)
		}
	}
	return all
}

// block is a block of code in a page: what follows the opening fence in its line, the line, and the code.
type block struct {
	language string
	line     int
	code     string
}

// split returns a page without its blocks of code, and the blocks.
func split(page string) (prose string, blocks []block) {
	line := 1
	for i, part := range strings.Split(page, "```") {
		if i%2 == 0 {
			prose += part
		} else {
			language, code, _ := strings.Cut(part, "\n")
			blocks = append(blocks, block{language, line, code})
		}
		line += strings.Count(part, "\n")
	}
	return prose, blocks
}

// blocksBelow returns the blocks of code after a heading, or another beginning of a line.
func blocksBelow(t *testing.T, page, heading string) []block {
	t.Helper()
	_, below, found := strings.Cut(pages(t, page)[page], "\n"+heading)
	_, blocks := split(below)
	if !found || len(blocks) == 0 {
		t.Fatalf("%s has no code below %s", page, heading)
	}
	return blocks
}

// The files that pages show are in the tree, where tests and readers use them.
func TestPagesShowFilesAsTheyAre(t *testing.T) {
	_, blocks := split(pages(t, "your-network.md")["your-network.md"])
	var shown []string
	for _, b := range blocks {
		shown = append(shown, b.code)
	}
	for file, text := range pages(t, "examples/network-managers/*") {
		if !slices.Contains(shown, text) {
			t.Errorf("your-network.md lacks %s as it is", file)
		}
	}
	server := "examples/ipam-server/server.go"
	_, blocks = split(pages(t, "ipam.md")["ipam.md"])
	i := slices.IndexFunc(blocks, func(b block) bool { return b.language == "go" })
	if i < 0 || !strings.Contains(pages(t, server)[server], blocks[i].code) {
		t.Errorf("ipam.md shows other code than %s", server)
	}
}

// kubectl describe prints the events of a Service, and never its conditions.
func TestNoPageLooksForAConditionInDescribe(t *testing.T) {
	sentence := regexp.MustCompile(`[^.|]*describe (?:service|svc)\b[^.|]*`)
	for page, text := range pages(t, "*.md", "../README.md") {
		for _, found := range sentence.FindAllString(text, -1) {
			if strings.Contains(found, "condition") {
				t.Errorf("%s: kubectl describe shows no condition:%s", page, found)
			}
		}
	}
}

// Speakers of MetalLB 0.15 have the default port of PureLB's agents, so these would not start beside them.
func TestTheGuideFromMetalLBLeavesItsPort(t *testing.T) {
	install := regexp.MustCompile(`(?m)^ *helm install purelb .*$`).FindString(pages(t, "migrate/metallb.md")["migrate/metallb.md"])
	port := regexp.MustCompile(`lbnodeagent\.port=(\d+)`).FindStringSubmatch(install)
	if port == nil || port[1] == "7472" {
		t.Errorf("agents have the port of MetalLB's speakers: %s", install)
	}
}

// A person can read each page at one sitting, and the manual in a day.
func TestTheManualIsShort(t *testing.T) {
	const readme = "../README.md"
	all := 0
	for page, text := range pages(t, "*.md", "migrate/*.md", readme) {
		limit := 3500
		switch {
		case page == readme:
			limit = 1500
		case strings.HasPrefix(page, "migrate/"):
			limit = 400
		}
		n := len(word.FindAllString(byHand(text), -1))
		if n > limit {
			t.Errorf("%s has %d words, want at most %d", page, n, limit)
		}
		if page != readme {
			all += n
		}
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
