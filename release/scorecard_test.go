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
		"Fuzzing":           strings.Contains(read(t, "../.github/workflows/ci.yaml"), "make fuzz"),
		"SAST":              strings.Contains(read(t, "../.ci/run"), "\nmake lint\n"),
		"Signed-Releases":   strings.Contains(read(t, "../.github/workflows/release.yaml"), "SIGNING_KEY"),
		"Vulnerabilities":   strings.Contains(read(t, "../.github/workflows/ci.yaml"), "make vulncheck"),
		"Token-Permissions": true, "Pinned-Dependencies": true, "Dangerous-Workflow": true, // workflows_test.go; Go builds nothing without sums
	} {
		if !holds {
			t.Errorf("the check %s of OpenSSF Scorecard does not hold", check)
		}
		if !regexp.MustCompile(`(?m)^\|[^|]*\b` + check + `\b`).MatchString(table) {
			t.Errorf("SECURITY.md does not name the check %s", check)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
