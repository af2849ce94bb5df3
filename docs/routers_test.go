package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"purelb.io/purelb/internal/testing/expect"
)

// The routers with which PureLB is tested read the examples of the pages.
func TestRoutersTakeTheirExamples(t *testing.T) {
	for _, router := range []struct {
		page, heading string
		check         []string // the file is the last argument
	}{
		{"bgp.md", "**FRR**", []string{"vtysh", "--dryrun", "--inputfile"}},
		{"bgp.md", "**BIRD 2**", []string{"bird", "-p", "-c"}},
		{"bgp-advanced.md", "## A routing daemon of your own", []string{"bird", "-p", "-c"}},
	} {
		t.Run(router.heading, func(t *testing.T) {
			example := blocksBelow(t, router.page, router.heading)[0].code
			file := filepath.Join(t.TempDir(), "router.conf")
			expect.NoError(t, os.WriteFile(file, []byte("\n"+example), 0o600))
			out, err := exec.Command(router.check[0], append(router.check[1:], file)...).CombinedOutput()
			if err != nil || strings.Contains(string(out), "Unknown command") {
				t.Errorf("%v\n%s\nof\n%s", err, out, example)
			}
		})
	}
}
