package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// These are the checks of OpenSSF Scorecard that look at the tree alone. Others need the
// settings and the history of a forge. workflows_test.go has those of workflows.

func TestTheTreeHasNoBinaries(t *testing.T) {
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"../.git", "../bin", "../dist"}, path):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		for _, magic := range []string{"\x7fELF", "MZ\x90", "\xfe\xed\xfa", "\xcf\xfa\xed\xfe", "PK\x03\x04", "\x1f\x8b", "!<arch>\n", "\x00asm"} {
			if bytes.HasPrefix(text, []byte(magic)) {
				t.Errorf("%s is a program or an archive", path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestThePolicyOfSecurityHasWhatAReporterNeeds(t *testing.T) {
	policy := read(t, "../SECURITY.md")
	for what, pattern := range map[string]string{
		"how to report":                    `(?s)## Report a vulnerability\n.*https://.*\d+ working days`,
		"which versions get fixes":         `(?s)## Supported versions\n\n\| Version \| Security fixes \|\n\|---\|---\|\n(\| .+ \| (yes|no).* \|\n){2,}`,
		"what is protected, and from whom": `(?s)## What is protected\n.*## Actors and what they can do\n`,
	} {
		if !regexp.MustCompile(pattern).MatchString(policy) {
			t.Errorf("SECURITY.md does not say %s", what)
		}
	}
}

func TestTheTreeKeepsWhatItSaysOfTheScorecard(t *testing.T) {
	table := read(t, "../SECURITY.md")
	for check, holds := range map[string]bool{
		"Binary-Artifacts":  true, // has a test of its own
		"License":           strings.HasPrefix(strings.TrimSpace(read(t, "../LICENSE")), "Apache License"),
		"Security-Policy":   true, // has a test of its own
		"Fuzzing":           strings.Contains(read(t, "../.github/workflows/ci.yaml"), "make fuzz") && fuzzed(t),
		"SAST":              strings.Contains(read(t, "../.ci/run"), "\nmake lint\n"),
		"Signed-Releases":   strings.Contains(read(t, "../.github/workflows/release.yaml"), "SIGNING_KEY"),
		"Vulnerabilities":   strings.Contains(read(t, "../.github/workflows/ci.yaml"), "make vulncheck"),
		"Token-Permissions": true, "Pinned-Dependencies": pinned(t), "Dangerous-Workflow": true, // workflows_test.go
	} {
		if !holds {
			t.Errorf("the check %s of OpenSSF Scorecard does not hold", check)
		}
		if !regexp.MustCompile(`(?m)^\|[^|]*\b` + check + `\b`).MatchString(table) {
			t.Errorf("SECURITY.md does not name the check %s", check)
		}
	}
}

// fuzzed reports whether there is a fuzz target of Go.
func fuzzed(t *testing.T) bool {
	t.Helper()
	tests, err := filepath.Glob("../internal/*/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(tests, func(file string) bool {
		return strings.Contains(read(t, file), "\nfunc Fuzz")
	})
}

// pinned reports whether each module has the sums of what it needs.
func pinned(t *testing.T) bool {
	t.Helper()
	modules, err := filepath.Glob("../*/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range append(modules, "../go.mod", "../lab/kubebox/go.mod", "../lab/cni/go.mod") {
		if _, err := os.Stat(filepath.Join(filepath.Dir(module), "go.sum")); err != nil {
			t.Errorf("%s has no sums: %v", module, err)
			return false
		}
	}
	return true
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
