// Package product builds PureLB from the source tree that contains the lab. It installs PureLB into
// the lab's cluster by the Helm chart, as a user would.
//
// It knows the programs of the product, its chart and the names of its objects. It does not know
// how they work.
package product

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/lab/internal/build"
)

// Namespace is the install namespace of the product, and Release the name of
// its Helm release.
const (
	Namespace = "purelb-system"
	Release   = "purelb"
	// Repository is where the chart of the lab's release pulls images from. No registry has this
	// name, because the lab's own registry replaces every registry.
	Repository = "registry.lab/purelb"
)

// Programs are the product's programs that run in the cluster. Each has an image of the same name.
var Programs = []string{"allocator", "lbnodeagent", "k8gobgp"}

// Images stores an image of static programs, so that the cluster's nodes can pull it.
type Images interface {
	AddImage(ctx context.Context, name string, programs ...string) (digest string, err error)
}

// Tree is a checkout of the product's source.
type Tree struct {
	// Root is the folder of the product's go.mod.
	Root string
	// Log receives the output of the build and of Helm.
	Log io.Writer
}

// FindTree returns the tree that contains dir.
func FindTree(dir string, log io.Writer) (Tree, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Tree{}, err
	}
	for d := dir; ; d = filepath.Dir(d) {
		b, err := os.ReadFile(filepath.Join(d, "go.mod"))
		if err == nil && strings.HasPrefix(string(b), "module purelb.io/purelb\n") {
			return Tree{Root: d, Log: log}, nil
		}
		if d == filepath.Dir(d) {
			return Tree{}, fmt.Errorf("find the product's source: no go.mod of purelb.io/purelb in %s or above it: run the lab from a checkout", dir)
		}
	}
}

// Build compiles the programs into dir and returns the tag of their images. The tag changes only if
// a binary changes.
func (t Tree) Build(ctx context.Context, dir string) (string, error) {
	sum := sha256.New()
	for _, p := range Programs {
		out := filepath.Join(dir, p)
		if err := build.Program(ctx, t.Root, "./cmd/"+p, out); err != nil {
			return "", err
		}
		b, err := os.ReadFile(out)
		if err != nil {
			return "", fmt.Errorf("build %s: %w", p, err)
		}
		sum.Write(b)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}

// Install builds the product, gives its images to the cluster, and installs, upgrades or downgrades
// its release. It then waits until every pod of the release is ready. values are further settings
// for the chart, as in "helm --set".
func (t Tree) Install(ctx context.Context, images Images, kubeconfig string, values ...string) error {
	dir, unlock, err := t.programs()
	if err != nil {
		return err
	}
	defer unlock()
	tag, err := t.Build(ctx, dir)
	if err != nil {
		return err
	}
	for _, p := range Programs {
		name := fmt.Sprintf("%s/%s:%s", Repository, p, tag)
		if _, err := images.AddImage(ctx, name, filepath.Join(dir, p)); err != nil {
			return fmt.Errorf("image of %s: %w", p, err)
		}
	}
	args := []string{"upgrade", "--install", Release, "charts/purelb", "--kubeconfig", kubeconfig,
		"--namespace", Namespace, "--create-namespace", "--wait", "--timeout", "3m",
		"--set", "image.repository=" + Repository, "--set", "image.tag=" + tag}
	for _, v := range values {
		args = append(args, "--set", v)
	}
	if err := t.Helm(ctx, args...); err != nil {
		return fmt.Errorf("install the chart: %w", err)
	}
	return nil
}

// programs returns the folder of the tree where its programs are built. Go links a program again only
// if it has changed. Other installations wait until unlock.
func (t Tree) programs() (dir string, unlock func(), err error) {
	dir = filepath.Join(t.Root, "bin", "lab")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, err
	}
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		return "", nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), lock.Close())
	}
	return dir, func() { _ = lock.Close() }, nil
}

// Helm runs the pinned Helm in the tree.
func (t Tree) Helm(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"tool", "-modfile=tools/go.mod", "helm"}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.Root, t.Log, t.Log
	return cmd.Run()
}
