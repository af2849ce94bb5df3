package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// vulnerabilities writes a database with one entry, about a function of the standard library.
func vulnerabilities(t *testing.T, pkg, function string) string {
	t.Helper()
	dir := t.TempDir()
	for file, text := range map[string]string{
		"index/db.json":      `{"modified":"2026-01-01T00:00:00Z"}`,
		"index/modules.json": `[{"path":"stdlib","vulns":[{"id":"GO-2026-9999","modified":"2026-01-01T00:00:00Z"}]}]`,
		"ID/GO-2026-9999.json": fmt.Sprintf(`{"schema_version":"1.3.1","id":"GO-2026-9999","modified":"2026-01-01T00:00:00Z",
			"published":"2026-01-01T00:00:00Z","summary":"made up","details":"made up","affected":[{"package":{"name":"stdlib","ecosystem":"Go"},
			"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
			"ecosystem_specific":{"imports":[{"path":%q,"symbols":[%q]}]}}],
			"database_specific":{"url":"https://pkg.go.dev/vuln/GO-2026-9999"}}`, pkg, function),
	} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return "file://" + dir
}

func vulncheck(t *testing.T, db string) (code int, out, vex string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "vex.json")
	cmd := exec.Command("../hack/vulncheck", "./internal/addr")
	cmd.Env = append(os.Environ(), "VULNDB="+db, "VEX="+file)
	text, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	statement, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(text), string(statement)
}

// The real database may be unreachable during this test, so the test has its own.
func TestCalledVulnerabilitiesAreFound(t *testing.T) {
	for _, tt := range []struct {
		name, pkg, function string
		code                int
		status              string
	}{
		{"called", "net/netip", "ParseAddr", 3, "affected"},
		{"not called", "net/netip", "MustParseAddrPort", 0, "not_affected"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, out, vex := vulncheck(t, vulnerabilities(t, tt.pkg, tt.function))
			if code != tt.code {
				t.Errorf("the exit code is %d, want %d:\n%s", code, tt.code, out)
			}
			var statement struct {
				Context    string `json:"@context"`
				Statements []struct{ Status string }
			}
			if err := json.Unmarshal([]byte(vex), &statement); err != nil {
				t.Fatalf("%v in %s", err, vex)
			}
			if !strings.HasPrefix(statement.Context, "https://openvex.dev/") || len(statement.Statements) != 1 || statement.Statements[0].Status != tt.status {
				t.Errorf("the statement is %s", vex)
			}
		})
	}
}

func TestUnreachableDatabaseIsAnError(t *testing.T) {
	code, out, _ := vulncheck(t, "file:///nonexistent")
	if code != 4 || !strings.Contains(out, "NOT CHECKED") {
		t.Errorf("the exit code is %d:\n%s", code, out)
	}
}
