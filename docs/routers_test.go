package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What the guide tells routers is read by those of them that PureLB is tested with.
func TestRoutersTakeTheirExamples(t *testing.T) {
	text, err := os.ReadFile("bgp.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, router := range []struct {
		heading string
		check   []string // the file comes last
	}{
		{"**FRR**", []string{"vtysh", "--dryrun", "--inputfile"}},
		{"**BIRD 2**", []string{"bird", "-p", "-c"}},
	} {
		t.Run(router.heading, func(t *testing.T) {
			_, after, _ := strings.Cut(string(text), "\n"+router.heading)
			_, after, _ = strings.Cut(after, "```\n")
			example, _, ok := strings.Cut(after, "```\n")
			if !ok {
				t.Fatal("the guide has no such example")
			}
			file := filepath.Join(t.TempDir(), "router.conf")
			if err := os.WriteFile(file, []byte("\n"+example), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(router.check[0], append(router.check[1:], file)...).CombinedOutput()
			if err != nil || strings.Contains(string(out), "Unknown command") {
				t.Errorf("%v\n%s\nof\n%s", err, out, example)
			}
		})
	}
}
