package docs

import (
	"os"
	"strings"
	"testing"
)

// The server in the manual is a part of the program that its own tests run.
func TestTheServerInTheManualIsTheOneThatIsTested(t *testing.T) {
	manual, err := os.ReadFile("ipam.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("examples/ipam-server/server.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(manual), "```go\n")
	code, _, found := strings.Cut(code, "```")
	if !found || !strings.Contains(string(program), code) {
		t.Errorf("docs/ipam.md shows other code than docs/examples/ipam-server/server.go:\n%s", code)
	}
	if n := strings.Count(code, "\n"); n < 40 || n > 70 {
		t.Errorf("it has %d lines, want about 60", n)
	}
}
