package source

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Go compiles and Helm packs a file even if it is not in git.
func TestUncommittedFileMakesTheTreeDirty(t *testing.T) {
	t.Setenv("PURELB_REVISION", "")
	t.Setenv("SOURCE_DATE_EPOCH", "")
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"}, args...)...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	write("go.mod", "module purelb.io/purelb\n")
	write(".gitignore", "/dist/\n")
	git("init", "--quiet")
	git("add", ".")
	git("commit", "--quiet", "--message", "first")
	for _, tt := range []struct {
		file  string
		dirty bool
	}{{"dist", false}, {"patch.go", true}} {
		if tt.file == "dist" {
			if err := os.Mkdir(filepath.Join(root, tt.file), 0o700); err != nil {
				t.Fatal(err)
			}
			write("dist/old.tgz", "ignored")
		} else {
			write(tt.file, "package main\n")
		}
		tree, err := Read(t.Context(), root, "1.2.3")
		if err != nil || tree.Dirty != tt.dirty {
			t.Errorf("with %s: dirty %t, want %t: %v", tt.file, tree.Dirty, tt.dirty, err)
		}
	}
}
