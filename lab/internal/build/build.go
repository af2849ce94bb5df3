// Package build compiles the programs of the lab and keeps them in the user's cache directory. It
// knows their sources, and nothing of the machines that run them. Program compiles any other program.
package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// kubeVersion is the version that the Kubernetes programs report. It must match kubebox/go.mod.
const kubeVersion = "v1.36.3"

// oldestVersion must match oldest/go.mod.
const oldestVersion = "v1.31.14"

// KubePrograms are the names under which kubebox can be called.
var KubePrograms = []string{
	"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl",
}

const (
	ldflags    = "-s -w"
	cniPlugins = "github.com/containernetworking/plugins/plugins/"
)

var (
	kubeLDFlags   = ldflags + versionFlags(kubeVersion, "36")
	oldestLDFlags = ldflags + versionFlags(oldestVersion, "31")
)

// versionFlags set the version that the programs of Kubernetes report.
func versionFlags(version, minor string) string {
	return " -X k8s.io/component-base/version.gitVersion=" + version +
		" -X k8s.io/component-base/version.gitMajor=1" +
		" -X k8s.io/component-base/version.gitMinor=" + minor +
		" -X k8s.io/client-go/pkg/version.gitVersion=" + version
}

// target is a binary and its sources.
type target struct {
	name    string // below the output directory
	module  string // directory of the module, below the source
	pkg     string
	ldflags string
	long    bool // takes minutes the first time
	// versions says that the versions of the module's requirements are an input of this target
	// alone. The versions of other modules are part of the directory's name.
	versions bool
	optional bool // only built when it is named
}

var targets = []target{
	{name: "kubebox", module: "kubebox", pkg: ".", ldflags: kubeLDFlags, long: true},
	{name: "coredns", module: "coredns", pkg: ".", ldflags: ldflags, versions: true},
	{name: "cni/bridge", module: "cni", pkg: cniPlugins + "main/bridge", ldflags: ldflags},
	{name: "cni/loopback", module: "cni", pkg: cniPlugins + "main/loopback", ldflags: ldflags},
	{name: "cni/host-local", module: "cni", pkg: cniPlugins + "ipam/host-local", ldflags: ldflags},
	{name: "cni/portmap", module: "cni", pkg: cniPlugins + "meta/portmap", ldflags: ldflags},
	{name: "pause", module: ".", pkg: "./cmd/pause", ldflags: ldflags},
	{name: "echo", module: ".", pkg: "./cmd/echo", ldflags: ldflags},
	{name: "flannel", module: "flannel", pkg: ".", ldflags: ldflags, versions: true, optional: true},
	{name: "metallb-controller", module: "metallb", pkg: "go.universe.tf/metallb/controller", ldflags: ldflags, versions: true, optional: true},
	{name: "metallb-speaker", module: "metallb", pkg: "go.universe.tf/metallb/speaker", ldflags: ldflags, versions: true, optional: true},
	{name: "oldest", module: "oldest", pkg: ".", ldflags: oldestLDFlags, long: true, versions: true, optional: true},
}

// Names returns the names of all targets.
func Names() []string {
	var names []string
	for _, t := range targets {
		names = append(names, t.name)
	}
	return names
}

// Always returns the names of the targets that every world needs.
func Always() []string {
	var names []string
	for _, t := range targets {
		if !t.optional {
			names = append(names, t.name)
		}
	}
	return names
}

// Cache returns the directory that holds all builds.
func Cache() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("where to keep what is built: %w", err)
	}
	return filepath.Join(dir, "purelb-lab"), nil
}

// Build compiles the targets that are missing or out of date, and returns their directory. Without
// names, it means all targets that every world needs. The link "bin" next to that directory leads to the newest build.
func Build(ctx context.Context, out io.Writer, only ...string) (dir string, err error) {
	for _, name := range only {
		if !slices.Contains(Names(), name) {
			return "", fmt.Errorf("%q is not built here: have %s", name, strings.Join(Names(), " "))
		}
	}
	src, err := Source()
	if err != nil {
		return "", err
	}
	cache, err := Cache()
	if err != nil {
		return "", err
	}
	key, err := versions(ctx, src)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, key)
	for _, t := range targets {
		if !slices.Contains(only, t.name) && (len(only) > 0 || t.optional) {
			continue
		}
		if err := t.make(ctx, src, dir, out); err != nil {
			return "", fmt.Errorf("build %s: %w", t.name, err)
		}
	}
	return dir, errors.Join(linkNames(dir), link(key, filepath.Join(cache, "bin")))
}

func (t target) make(ctx context.Context, src, dir string, out io.Writer) error {
	inputs, err := t.inputs(src)
	if err != nil {
		return err
	}
	file, stamp := filepath.Join(dir, t.name), filepath.Join(dir, "."+strings.ReplaceAll(t.name, "/", "-")+".inputs")
	if old, err := os.ReadFile(stamp); err == nil && string(old) == inputs && exists(file) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := t.compile(ctx, filepath.Join(src, t.module), file, out); err != nil {
		return err
	}
	return os.WriteFile(stamp, []byte(inputs), 0o644)
}

// compile builds next to the file and then replaces it, because the old program may be running.
func (t target) compile(ctx context.Context, module, file string, out io.Writer) error {
	if t.long {
		if err := step(ctx, out, "downloading the modules of "+t.name, goCommand(ctx, module, "mod", "download")); err != nil {
			return err
		}
	}
	what := "compiling " + t.name
	if t.long {
		fmt.Fprintf(out, "%s: takes 5 to 9 minutes the first time, seconds after that\n", what)
	}
	cmd := goCommand(ctx, module, "build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", t.ldflags, "-o", file+".new", t.pkg)
	if err := step(ctx, out, what, cmd); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

func goCommand(ctx context.Context, module string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly", "GOOS=linux")
	return cmd
}

// Program compiles a program of the module in a folder. Go links it again only if it has changed.
func Program(ctx context.Context, module, pkg, file string) error {
	// Without -trimpath, Go uses the packages that it has compiled for tests.
	cmd := goCommand(ctx, module, "build", "-ldflags", ldflags, "-o", file, pkg)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// inputs returns a digest of the target's sources, and perhaps of the versions of other modules.
func (t target) inputs(src string) (string, error) {
	if t.module == "cni" {
		return t.pkg, nil
	}
	files, err := filepath.Glob(filepath.Join(src, t.module, t.pkg, "*.go"))
	if err != nil {
		return "", err
	}
	if t.versions {
		files = append(files, filepath.Join(src, t.module, "go.mod"), filepath.Join(src, t.module, "go.sum"))
	}
	return digest(t.pkg+t.ldflags, files...)
}

// versions returns a short digest of the Go version and of all modules' versions.
func versions(ctx context.Context, src string) (string, error) {
	goVersion, err := goCommand(ctx, src, "env", "GOVERSION", "GOARCH").Output()
	if err != nil {
		return "", fmt.Errorf("the go command: %w", err)
	}
	key, err := digest(string(goVersion)+ldflags+kubeLDFlags,
		filepath.Join(src, "kubebox", "go.sum"), filepath.Join(src, "kubebox", "go.mod"), filepath.Join(src, "cni", "go.sum"))
	if err != nil {
		return "", err
	}
	return key[:16], nil
}

func digest(text string, files ...string) (string, error) {
	h := sha256.New()
	h.Write([]byte(text))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "\x00%s\x00%d\x00", filepath.Base(f), len(b))
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// linkNames makes links to kubebox with the names of its programs.
func linkNames(dir string) error {
	var errs []error
	for _, name := range KubePrograms {
		errs = append(errs, link("kubebox", filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

// link makes a symbolic link. It replaces an existing link in one step.
func link(to, at string) error {
	if now, err := os.Readlink(at); err == nil && now == to {
		return nil
	}
	tmp := at + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(to, tmp); err != nil {
		return err
	}
	return os.Rename(tmp, at)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
