package main

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// A workflow has only the rights that a job names. It pins actions by their commits, and leaves no
// credentials in the checkout.
func TestWorkflowsHaveOnlyNeededRights(t *testing.T) {
	files, err := filepath.Glob("../.github/workflows/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("the tree has no workflows: %v", err)
	}
	allowed := map[string]string{
		"main.yaml/publish":    "contents: read\npackages: write\n",
		"release.yaml/publish": "contents: write\npackages: write\n",
		"site.yaml/publish":    "id-token: write\npages: write\n",
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var w struct {
			Permissions map[string]string
			Jobs        map[string]struct {
				Permissions map[string]string
				Steps       []struct {
					Uses string
					Run  string
					With map[string]any
				}
			}
		}
		if err := yaml.Unmarshal(text, &w); err != nil {
			t.Fatal(err)
		}
		if w.Permissions == nil || len(w.Permissions) > 0 {
			t.Errorf("%s: all jobs have the rights %v, want {}", file, w.Permissions)
		}
		for name, job := range w.Jobs {
			rights, err := yaml.Marshal(job.Permissions)
			if err != nil {
				t.Fatal(err)
			}
			want, ok := allowed[filepath.Base(file)+"/"+name]
			if !ok {
				want = "contents: read\n"
			}
			if string(rights) != want {
				t.Errorf("%s: job %s has the rights\n%swant\n%s", file, name, rights, want)
			}
			for _, step := range job.Steps {
				if step.Uses != "" && !regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40}$`).MatchString(step.Uses) {
					t.Errorf("%s: %s is not pinned by a commit", file, step.Uses)
				}
				if strings.HasPrefix(step.Uses, "actions/checkout@") && step.With["persist-credentials"] != false {
					t.Errorf("%s: job %s leaves its token in the checkout", file, name)
				}
				if strings.Contains(step.Run, "${{") {
					t.Errorf("%s: job %s pastes a value into a script; pass it as a variable", file, name)
				}
			}
		}
	}
}

// Where .ci/run runs, the database of vulnerabilities may be unreachable. So a workflow must do
// this check.
func TestWorkflowChecksForVulnerabilities(t *testing.T) {
	for _, file := range []string{"ci.yaml", "release.yaml"} {
		text, err := os.ReadFile("../.github/workflows/" + file)
		if err != nil || !strings.Contains(string(text), "make vulncheck") {
			t.Errorf("%s does not run make vulncheck: %v", file, err)
		}
	}
}

// TestNotesAreOfOneVersion: the notes of a release are its section of the changelog, and without one
// there is no release.
func TestNotesAreOfOneVersion(t *testing.T) {
	changelog := filepath.Join(t.TempDir(), "CHANGELOG.md")
	if err := os.WriteFile(changelog, []byte("# Changelog\n## [Unreleased]\n- c\n## [1.2.0] - 2027-01-01\n### Added\n- b\n## [1.1.0] - 2026-12-01\n- a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{"v1.2.0": "## [1.2.0] - 2027-01-01\n### Added\n- b\n", "1.1.0": "## [1.1.0] - 2026-12-01\n- a\n", "1.3.0": ""} {
		got, err := exec.CommandContext(t.Context(), "make", "--no-print-directory", "-C", "..", "notes", "VERSION="+version, "CHANGELOG="+changelog).Output()
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("notes of %s: %q, %v", version, got, err)
		}
	}
}

// TestDependabotKnowsEveryModule: a Go module that it does not know keeps old libraries.
func TestDependabotKnowsEveryModule(t *testing.T) {
	text, err := os.ReadFile("../.github/dependabot.yml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Updates []struct {
			Directories []string
		}
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	files, err := exec.CommandContext(t.Context(), "git", "-C", "..", "ls-files", "go.mod", "*/go.mod").Output()
	if err != nil {
		t.Fatal(err)
	}
	var modules []string
	for file := range strings.Lines(string(files)) {
		modules = append(modules, path.Dir("/"+strings.TrimSpace(file)))
	}
	slices.Sort(modules)
	if !slices.Equal(config.Updates[0].Directories, modules) {
		t.Errorf("dependabot knows\n%v, and the modules are\n%v", config.Updates[0].Directories, modules)
	}
}
