package docs

import (
	"maps"
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
	scenes := strings.Join(slices.Collect(maps.Values(pages(t, "../lab/e2e/moving*_test.go"))), "\n")
	for page, text := range pages(t, "migrate/*.md") {
		_, blocks := split(text)
		for _, b := range blocks {
			for line := range strings.Lines(b.code) {
				command := strings.Replace(strings.TrimSpace(line), published, "CHART", 1)
				quoted := strings.Contains(scenes, `"`+command+`"`) || strings.Contains(scenes, "`"+command+"`")
				if command != "" && notInScenes[command] == "" && !quoted {
					t.Errorf("%s: no scene runs %s", page, command)
				}
			}
		}
	}
}
