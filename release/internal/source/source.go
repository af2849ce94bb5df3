// Package source is the checkout from which a release is made. It knows the commit, and how to
// compile the programs.
package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// Plugin is the program that users run as a plugin of kubectl.
const Plugin = "kubectl-purelb"

// Program is a program that runs in a cluster, from an image of the same name.
type Program struct {
	Name string
	// User is the user of the image, unless the pod sets another one.
	User string
	// About is one line for the labels of the image.
	About string
}

// Programs are the programs with an image.
var Programs = []Program{
	{"allocator", "65534:65534", "The allocator of PureLB: gives addresses to Services of type LoadBalancer"},
	{"lbnodeagent", "0:0", "The node agent of PureLB: announces addresses of Services on the node"},
	{"k8gobgp", "0:0", "The BGP speaker of PureLB: tells routers of the addresses of Services"},
}

// Platform is an operating system and a processor, by Go's names.
type Platform struct{ OS, Arch string }

// ParsePlatforms reads a list such as "linux/amd64,linux/arm64".
func ParsePlatforms(list string) ([]Platform, error) {
	var platforms []Platform
	for text := range strings.SplitSeq(list, ",") {
		system, arch, ok := strings.Cut(text, "/")
		if !ok || system == "" || arch == "" {
			return nil, fmt.Errorf("platform %q: want something like linux/amd64", text)
		}
		platforms = append(platforms, Platform{system, arch})
	}
	return platforms, nil
}

func (p Platform) String() string { return p.OS + "/" + p.Arch }

// MarshalText writes the platform as ParsePlatforms reads it.
func (p Platform) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// Tree is a checkout of PureLB.
type Tree struct {
	Root     string // the folder of go.mod
	Version  string // version of the release, without a leading v
	Revision string // the commit
	// Time is when the commit was made. It is the only time in a release.
	Time time.Time
	// Dirty says that the tree has uncommitted changes. A file that is not in git is also a change,
	// because Go compiles it and Helm packs it.
	Dirty bool
}

// Read reads the checkout in root. SOURCE_DATE_EPOCH, if set, is the time, and PURELB_REVISION the
// commit. An unpacked source archive has neither.
func Read(ctx context.Context, root, version string) (Tree, error) {
	t := Tree{Version: strings.TrimPrefix(version, "v")}
	if v := "v" + t.Version; semver.Canonical(v) != v {
		return Tree{}, fmt.Errorf("version %q: want one as 1.2.3 or 1.2.3-rc.1", version)
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return Tree{}, err
	}
	t.Root = root
	gomod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil || !bytes.HasPrefix(gomod, []byte("module purelb.io/purelb\n")) {
		return Tree{}, errors.Join(fmt.Errorf("%s is no checkout of PureLB: its go.mod is not there or is another module's", root), err)
	}
	t.Revision, err = t.orGit(ctx, "PURELB_REVISION", "rev-parse", "HEAD")
	if err != nil {
		return Tree{}, err
	}
	epoch, err := t.orGit(ctx, "SOURCE_DATE_EPOCH", "log", "-1", "--format=%ct")
	if err != nil {
		return Tree{}, err
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return Tree{}, fmt.Errorf("SOURCE_DATE_EPOCH %q: want seconds since 1970", epoch)
	}
	t.Time = time.Unix(seconds, 0).UTC()
	if os.Getenv("PURELB_REVISION") == "" {
		changes, err := t.git(ctx, "status", "--porcelain")
		if err != nil {
			return Tree{}, err
		}
		t.Dirty = changes != ""
	}
	return t, nil
}

// orGit returns the value of the environment variable, or otherwise git's answer.
func (t Tree) orGit(ctx context.Context, variable string, args ...string) (string, error) {
	if v := os.Getenv(variable); v != "" {
		return v, nil
	}
	out, err := t.git(ctx, args...)
	if err != nil {
		return "", fmt.Errorf("%w: where there is no git, set %s", err, variable)
	}
	return out, nil
}

func (t Tree) git(ctx context.Context, args ...string) (string, error) {
	out, err := t.Output(ctx, nil, "git", args...)
	return strings.TrimSpace(string(out)), err
}

// Build compiles a program. The result depends only on the source, the Go toolchain and the
// version, not on the folder, the user, the day or Go's settings on this machine.
func (t Tree) Build(ctx context.Context, program string, p Platform, out string) error {
	env := []string{
		"CGO_ENABLED=0", "GOOS=" + p.OS, "GOARCH=" + p.Arch, "GOWORK=off", "GOFLAGS=",
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off",
	}
	_, err := t.Output(ctx, env, "go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid= -X purelb.io/purelb/internal/buildinfo.release="+t.Version, "-o", out, "./cmd/"+program)
	if err != nil {
		return fmt.Errorf("build %s for %s: %w", program, p, err)
	}
	return nil
}

// Helm runs the pinned Helm and returns what it prints.
func (t Tree) Helm(ctx context.Context, args ...string) ([]byte, error) {
	return t.Output(ctx, nil, "go", append([]string{"tool", "-modfile=tools/go.mod", "helm"}, args...)...)
}

// Output runs a program in the tree and returns what it prints.
func (t Tree) Output(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.Stderr = t.Root, append(os.Environ(), env...), &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(append([]string{name}, args[:min(len(args), 2)]...), " "), err, stderr.String())
	}
	return out, nil
}
