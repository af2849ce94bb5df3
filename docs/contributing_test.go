package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestTheTestsOfPromisesExist reads the table of CONTRIBUTING.md. A ring of a promise that names no
// test says that the promise is not yet proven there.
func TestTheTestsOfPromisesExist(t *testing.T) {
	table := chapters(t, "CONTRIBUTING.md")["Tests"]
	rows := regexp.MustCompile(`(?m)^\| (\d+) \| (.*) \|$`).FindAllStringSubmatch(table, -1)
	const promises = 18
	if len(rows) != promises {
		t.Errorf("the table has %d promises, want %d", len(rows), promises)
	}
	test := regexp.MustCompile("`([a-z0-9/]+)\\.(Test\\w+)`")
	for i, row := range rows {
		if row[1] != strconv.Itoa(i+1) {
			t.Errorf("promise %s is in line %d of the table", row[1], i+1)
		}
		for _, named := range test.FindAllStringSubmatch(row[2], -1) {
			if folder := folderOf(named[1]); !slices.Contains(testsIn(t, folder), named[2]) {
				t.Errorf("promise %s: %s has no %s", row[1], folder, named[2])
			}
		}
		for _, scene := range regexp.MustCompile("`([a-z0-9/]+)\\.TestScenes` \\*([^*]*)\\*").FindAllStringSubmatch(row[2], -1) {
			if !slices.Contains(scenesIn(t, folderOf(scene[1])), scene[2]) {
				t.Errorf("promise %s: %s has no scene %q", row[1], scene[1], scene[2])
			}
		}
		for ring, cell := range strings.Split(row[2], " | ")[1:] {
			if strings.TrimSpace(cell) != "" && !test.MatchString(cell) && !strings.Contains(cell, "not yet proven") {
				t.Errorf("promise %s, ring %d: %q names no test", row[1], ring+1, cell)
			}
		}
	}
}

// folderOf returns the folder of a package of the table.
func folderOf(name string) string {
	switch {
	case name == "e2e":
		return "../lab/e2e"
	case strings.Contains(name, "/"):
		return "../" + name
	}
	for _, pattern := range []string{"../internal/" + name, "../internal/*/" + name} {
		if found, _ := filepath.Glob(pattern); len(found) == 1 {
			return found[0]
		}
	}
	return "no package " + name
}

// testsIn returns the names of the tests in a folder.
func testsIn(t *testing.T, folder string) []string {
	t.Helper()
	return namesIn(t, folder+"/*_test.go", `(?m)^func (Test\w+)\(t `)
}

// scenesIn returns the names of the scenes that TestScenes of a folder plays.
func scenesIn(t *testing.T, folder string) []string {
	t.Helper()
	return namesIn(t, folder+"/testdata/*.txt", `(?m)^# (.*)$`)
}

func namesIn(t *testing.T, files, name string) (names []string) {
	t.Helper()
	for _, text := range pages(t, files) {
		names = append(names, matches(regexp.MustCompile(name), text)...)
	}
	return names
}
