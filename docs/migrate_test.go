package docs

import (
	"os"
	"path/filepath"
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
	var scenes strings.Builder
	files, err := filepath.Glob("../lab/e2e/moving*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no scenes: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		scenes.Write(text)
	}
	pages, err := filepath.Glob("migrate/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("there are no pages: %v", err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range strings.Split(string(text), "```") {
			if i%2 == 0 {
				continue // between two blocks
			}
			for line := range strings.Lines(block) {
				command := strings.Replace(strings.TrimSpace(line), published, "CHART", 1)
				quoted := strings.Contains(scenes.String(), `"`+command+`"`) || strings.Contains(scenes.String(), "`"+command+"`")
				if command != "" && notInScenes[command] == "" && !quoted {
					t.Errorf("%s: no scene runs %s", page, command)
				}
			}
		}
	}
}
