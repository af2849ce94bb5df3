package docs

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// notInScenes are the commands of docs/migrate that no scene can run, and why.
var notInScenes = map[string]string{
	"systemctl restart k3s":                             "the lab has no K3s",
	"helm uninstall metallb --namespace metallb-system": "the lab installs MetalLB by its manifest",
}

// TestScenesRunTheCommandsOfMigration compares the commands of docs/migrate with those in the source of the
// scenes, which run them.
func TestScenesRunTheCommandsOfMigration(t *testing.T) {
	const published = "oci://registry.example.org/purelb/charts/purelb --version VERSION"
	scenes := strings.Join(slices.Collect(maps.Values(texts(t, "../lab/e2e/moving*_test.go"))), "\n")
	for page, text := range texts(t, "migrate/*.md") {
		for i, block := range strings.Split(text, "```") {
			if i%2 == 0 {
				continue // between two blocks
			}
			for line := range strings.Lines(block) {
				command := strings.Replace(strings.TrimSpace(line), published, "CHART", 1)
				quoted := strings.Contains(scenes, `"`+command+`"`) || strings.Contains(scenes, "`"+command+"`")
				if command != "" && notInScenes[command] == "" && !quoted {
					t.Errorf("%s: no scene runs %s", page, command)
				}
			}
		}
	}
}

// texts returns the texts of the files that match pattern, by their names.
func texts(t *testing.T, pattern string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no file matches %s: %v", pattern, err)
	}
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[file] = string(text)
	}
	return all
}
