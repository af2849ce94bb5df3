package product

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// history makes a repository. It has one commit for each file, and the files are empty.
func history(t *testing.T, files ...string) Tree {
	t.Helper()
	for name, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org",
		"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org", "UPGRADE_FROM": "",
	} {
		t.Setenv(name, value)
	}
	tree := Tree{Root: t.TempDir(), Log: io.Discard}
	git(t, tree, "init", "--quiet", "--initial-branch=main")
	for _, file := range files {
		write(t, tree, file)
		git(t, tree, "add", file)
		git(t, tree, "commit", "--quiet", "--message", file)
	}
	return tree
}

func write(t *testing.T, tree Tree, file string) {
	t.Helper()
	path := filepath.Join(tree.Root, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func git(t *testing.T, tree Tree, args ...string) {
	t.Helper()
	if _, err := tree.git(t.Context(), args...); err != nil {
		t.Fatal(err)
	}
}

// subject returns the first line of the commit from which an upgrade starts.
func subject(t *testing.T, tree Tree) string {
	t.Helper()
	commit, err := tree.Before(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := tree.git(t.Context(), "log", "-1", "--format=%s", commit)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTheUpgradeStartsBeforeTheLastChangeOfTheProduct(t *testing.T) {
	for _, tt := range []struct {
		name, change, want string
		commits            []string
	}{
		{name: "the last commit changed the product", commits: []string{"cmd/a", "api/b"}, want: "cmd/a"},
		{name: "the last commit changed a page", commits: []string{"cmd/a", "docs/a", "api/b", "docs/b"}, want: "docs/a"},
		{name: "an uncommitted change of the product", commits: []string{"cmd/a", "api/b"}, change: "charts/c", want: "api/b"},
		{name: "an uncommitted page", commits: []string{"cmd/a", "api/b"}, change: "docs/c", want: "cmd/a"},
		{name: "the repository has one commit", commits: []string{"cmd/a"}, want: "cmd/a"},
		{name: "only the first commit changed the product", commits: []string{"cmd/a", "docs/a"}, want: "cmd/a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree := history(t, tt.commits...)
			if tt.change != "" {
				write(t, tree, tt.change)
			}
			if got := subject(t, tree); got != tt.want {
				t.Errorf("the upgrade starts from %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAShallowCloneFetchesTheEarlierCommit(t *testing.T) {
	origin := history(t, "cmd/a", "docs/a", "api/b", "docs/b")
	clone := Tree{Root: t.TempDir(), Log: io.Discard}
	git(t, clone, "clone", "--quiet", "--depth=1", "file://"+origin.Root, ".")
	if got := subject(t, clone); got != "docs/a" {
		t.Errorf("the upgrade starts from %q, want %q", got, "docs/a")
	}
}

func TestAShallowCloneWithoutItsOriginFails(t *testing.T) {
	origin := history(t, "cmd/a", "api/b")
	clone := Tree{Root: t.TempDir(), Log: io.Discard}
	git(t, clone, "clone", "--quiet", "--depth=1", "file://"+origin.Root, ".")
	git(t, clone, "remote", "set-url", "origin", "file:///nowhere")
	commit, err := clone.Before(t.Context())
	if err == nil || !strings.Contains(err.Error(), "UPGRADE_FROM") {
		t.Errorf("the upgrade starts from %q, %v; want an error that names UPGRADE_FROM", commit, err)
	}
}

func TestTheUpgradeStartsFromUPGRADE_FROM(t *testing.T) {
	tree := history(t, "cmd/a", "api/b", "api/c")
	git(t, tree, "tag", "--annotate", "--message=x", "v1", "HEAD~2")
	t.Setenv("UPGRADE_FROM", "v1")
	if got := subject(t, tree); got != "cmd/a" {
		t.Errorf("the upgrade starts from %q, want %q", got, "cmd/a")
	}
	t.Setenv("UPGRADE_FROM", "v2")
	if commit, err := tree.Before(t.Context()); err == nil {
		t.Errorf("the upgrade starts from %q, want the commit of UPGRADE_FROM", commit)
	}
}

// A fetch that waits for a password would block the test.
func TestGitAsksForNoPassword(t *testing.T) {
	text, err := history(t).git(t.Context(), "-c", "alias.prompt=!echo $GIT_TERMINAL_PROMPT", "prompt")
	if err != nil || text != "0" {
		t.Errorf("GIT_TERMINAL_PROMPT is %q, %v", text, err)
	}
}

func TestACopyHasUncommittedFiles(t *testing.T) {
	tree := history(t, "cmd/a", "cmd/b")
	write(t, tree, "cmd/c")
	if err := os.Remove(filepath.Join(tree.Root, "cmd/a")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, want string
		into       func(dir string) error
	}{
		{"Copy", "cmd\ncmd/b\ncmd/c", func(dir string) error { return tree.Copy(t.Context(), dir) }},
		{"Checkout", "cmd\ncmd/a\ncmd/b", func(dir string) error { return tree.Checkout(t.Context(), "HEAD", dir) }},
	} {
		dir := t.TempDir()
		if err := tt.into(dir); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("find", dir, "-mindepth", "1", "-printf", "%P\n").Output()
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if got := strings.Join(slices.Sorted(slices.Values(lines)), "\n"); got != tt.want {
			t.Errorf("%s writes\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}
