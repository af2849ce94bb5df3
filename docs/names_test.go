package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"purelb.io/purelb/internal/testing/expect"
)

// coined matches the words of a program, such as peerAsn, BFDDown and bgp_10k_vs_bare, which are no
// words of English.
var coined = regexp.MustCompile(`\b([a-z]+[A-Z]\w*|[A-Z]\w*[a-z][A-Z]\w*|[a-z]\w*_\w+)\b`)

// TestTheNamesOfTheBGPPagesExist looks for the names of fields, events, log lines and results. They
// can be renamed without an error in the examples of the pages. Patterns of make bench are the beginning of a
// name.
func TestTheNamesOfTheBGPPagesExist(t *testing.T) {
	exist := namesOfTheTree(t)
	var names []string
	for _, text := range pages(t, "bgp.md", "bgp-tune.md", "bgp-advanced.md") {
		prose, _ := split(text)
		for _, code := range matches(regexp.MustCompile("`([^`]*)`"), prose) {
			names = append(names, coined.FindAllString(code, -1)...)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) < 50 {
		t.Errorf("the pages have the names %v, want more of them", names)
	}
	for _, name := range names {
		if i, _ := slices.BinarySearch(exist, name); i == len(exist) || !strings.HasPrefix(exist[i], name) {
			t.Errorf("no name begins with %s", name)
		}
	}
}

// namesOfTheTree returns the names in the source code and in the chart, sorted.
func namesOfTheTree(t *testing.T) (names []string) {
	t.Helper()
	for _, dir := range []string{"../api", "../charts", "../cmd", "../internal", "../lab"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !slices.Contains([]string{".go", ".yaml"}, filepath.Ext(path)) {
				return err
			}
			text, err := os.ReadFile(path)
			names = append(names, coined.FindAllString(string(text), -1)...)
			return err
		})
		expect.NoError(t, err)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
