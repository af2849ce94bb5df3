package docs

import (
	"strings"
	"testing"

	"purelb.io/purelb/internal/testing/apitest"
)

// The manual shows a part of the program that its own tests run.
func TestManualShowsTheTestedServer(t *testing.T) {
	_, code, _ := strings.Cut(apitest.Text(t, "docs/ipam.md"), "```go\n")
	code, _, found := strings.Cut(code, "```")
	if !found || !strings.Contains(apitest.Text(t, "docs/examples/ipam-server/server.go"), code) {
		t.Errorf("docs/ipam.md shows other code than docs/examples/ipam-server/server.go:\n%s", code)
	}
	if n := strings.Count(code, "\n"); n < 40 || n > 70 {
		t.Errorf("the code has %d lines, want about 60", n)
	}
}
