package product

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// sources are the files of a checkout that the programs and the chart are made from.
var sources = []string{"api", "charts", "cmd", "internal", "go.mod", "go.sum"}

// Before returns the commit at which an upgrade to this tree begins.
//
// That is the parent of the last commit that changed the product, or the last commit if the tree
// has changes that are not committed. If the last commit that changed the product has no parent,
// Before returns that commit. It fetches commits that a shallow clone lacks, and fails if it cannot
// fetch them. The environment variable UPGRADE_FROM takes precedence.
func (t Tree) Before(ctx context.Context) (commit string, err error) {
	if name := os.Getenv("UPGRADE_FROM"); name != "" {
		return t.Commit(ctx, name)
	}
	changes, err := t.git(ctx, append([]string{"status", "--porcelain", "--"}, sources...)...)
	if err != nil {
		return "", err
	}
	if changes != "" {
		return t.git(ctx, "rev-parse", "HEAD")
	}
	commit, err = t.parent(ctx)
	if err == nil {
		return commit, nil
	}
	if shallow, err := t.git(ctx, "rev-parse", "--is-shallow-repository"); err != nil || shallow != "true" {
		return t.lastChange(ctx) // a first commit has no parent
	}
	_, fetched := t.git(ctx, "fetch", "--quiet", "--deepen=50")
	commit, err = t.parent(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("the clone is shallow and lacks the commit to upgrade from: fetch it (git fetch --unshallow), or set UPGRADE_FROM to a commit that is here: %w", err), fetched)
	}
	return commit, err
}

// Commit returns the hash of the commit with this name: a branch, a tag or a hash.
func (t Tree) Commit(ctx context.Context, name string) (string, error) {
	return t.git(ctx, "rev-parse", "--verify", name+"^{commit}")
}

// parent returns the parent of the last commit that changed the product.
func (t Tree) parent(ctx context.Context) (string, error) {
	last, err := t.lastChange(ctx)
	if err != nil {
		return "", err
	}
	return t.git(ctx, "rev-parse", "--verify", "--quiet", last+"^1")
}

func (t Tree) lastChange(ctx context.Context) (string, error) {
	return t.git(ctx, append([]string{"log", "-1", "--format=%H", "--"}, sources...)...)
}

// Checkout writes the files of a commit into dir.
func (t Tree) Checkout(ctx context.Context, commit, dir string) error {
	return t.unpack(ctx, dir, "git", "archive", "--format=tar", commit)
}

// Copy writes the files of the tree, as they are now, into dir. It leaves out what git
// ignores.
func (t Tree) Copy(ctx context.Context, dir string) error {
	list, err := t.git(ctx, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	var there []string
	for file := range strings.SplitSeq(strings.TrimRight(list, "\x00"), "\x00") {
		if _, err := os.Lstat(filepath.Join(t.Root, file)); err == nil { // the index still lists deleted files
			there = append(there, file)
		}
	}
	names := filepath.Join(dir, ".files")
	if err := os.WriteFile(names, []byte(strings.Join(there, "\x00")), 0o600); err != nil {
		return err
	}
	return errors.Join(t.unpack(ctx, dir, "tar", "--create", "--null", "--files-from", names), os.Remove(names))
}

// unpack runs a command in the tree that prints an archive, and extracts the archive into dir.
func (t Tree) unpack(ctx context.Context, dir, name string, args ...string) error {
	pack, extract := exec.CommandContext(ctx, name, args...), exec.CommandContext(ctx, "tar", "--extract", "--directory", dir)
	pack.Dir = t.Root
	pack.Stderr, extract.Stderr = t.Log, t.Log
	out, err := pack.StdoutPipe()
	if err != nil {
		return err
	}
	extract.Stdin = out
	if err := pack.Start(); err != nil {
		return err
	}
	err = errors.Join(extract.Run(), pack.Wait())
	if err != nil {
		return fmt.Errorf("%s in %s: %w", name, t.Root, err)
	}
	return nil
}

func (t Tree) git(ctx context.Context, args ...string) (string, error) {
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.Root, &out, &complaint
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0") // a fetch must fail rather than ask for a password
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(complaint.String()))
	}
	return strings.TrimSpace(out.String()), nil
}
