// Package cgroup gives each machine a subtree of the host's control groups. It
// works on hosts with the version 1 hierarchies (also the hybrid layout) and on
// hosts with version 2 only. It knows nothing of what runs in a group.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Hierarchy is a mounted tree of control groups.
type Hierarchy struct {
	Path    string // where it is mounted
	Options string // what to mount it with; empty for version 2
	V2      bool
}

// Layout is how the host has its control groups mounted, and the name of the
// group, in each of the trees, that holds those of a lab's machines.
type Layout struct {
	Trees []Hierarchy
	Group string
}

// Discover reads the layout of this host.
func Discover(group string) (Layout, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return Layout{}, err
	}
	trees := Parse(string(b))
	if len(trees) == 0 {
		return Layout{}, errors.New("no control groups are mounted: mount cgroup2 at /sys/fs/cgroup")
	}
	return Layout{trees, group}, nil
}

// Parse reads the hierarchies from the text of /proc/PID/mountinfo.
func Parse(mountinfo string) []Hierarchy {
	var l []Hierarchy
	for line := range strings.Lines(mountinfo) {
		left, right, _ := strings.Cut(line, " - ")
		l2, r := strings.Fields(left), strings.Fields(right)
		if len(l2) < 5 || len(r) < 3 || !strings.HasPrefix(r[0], "cgroup") || !strings.HasPrefix(l2[4], "/sys/fs/cgroup") {
			continue
		}
		h := Hierarchy{Path: l2[4], V2: r[0] == "cgroup2"}
		if !h.V2 {
			h.Options = controllers(r[2])
		}
		if !slices.ContainsFunc(l, func(o Hierarchy) bool { return o.Path == h.Path }) {
			l = append(l, h)
		}
	}
	return l
}

// controllers picks from a version 1 mount's options those that say which
// hierarchy it is.
func controllers(options string) string {
	var keep []string
	for _, o := range strings.Split(options, ",") {
		switch {
		case strings.HasPrefix(o, "name="):
			keep = append(keep, "none", o)
		case !slices.Contains([]string{"rw", "ro", "xattr", "clone_children"}, o) && !strings.Contains(o, "="):
			keep = append(keep, o)
		}
	}
	return strings.Join(keep, ",")
}

// Unified tells whether the host has version 2 only.
func (l Layout) Unified() bool { return len(l.Trees) == 1 && l.Trees[0].V2 }

// Create makes the groups of a machine. Making them twice is not an error.
func (l Layout) Create(machine string) error {
	for _, h := range l.Trees {
		if err := h.create(l.Group, machine); err != nil {
			return fmt.Errorf("cgroup %s: %w", h.Path, err)
		}
	}
	return nil
}

func (h Hierarchy) create(names ...string) error {
	dir := h.Path
	for _, name := range names {
		if err := h.delegate(dir); err != nil {
			return err
		}
		dir = filepath.Join(dir, name)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := h.inheritCPUs(dir); err != nil {
			return err
		}
	}
	return nil
}

// wanted are the controllers that kubelet and runc ask for.
var wanted = []string{"cpu", "cpuset", "hugetlb", "io", "memory", "pids"}

// delegate lets the children of a version 2 group use the controllers that the
// group has. What systemd has enabled already stays enabled.
func (h Hierarchy) delegate(dir string) error {
	if !h.V2 {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, c := range strings.Fields(string(b)) {
		if !slices.Contains(wanted, c) {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0); err != nil {
			return fmt.Errorf("enable controller %s below %s: %w", c, dir, err)
		}
	}
	return nil
}

// inheritCPUs fills in the two files without which a version 1 cpuset takes no
// process.
func (h Hierarchy) inheritCPUs(dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		b, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
		if h.V2 || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), b, 0); err != nil {
			return err
		}
	}
	return nil
}

// Enter moves the calling process into the groups of a machine and makes them
// the roots of a new cgroup namespace. The namespace is the calling thread's:
// the caller must have locked it, and go on by exec.
func (l Layout) Enter(machine string) error {
	for _, h := range l.Trees {
		if err := join(filepath.Join(h.Path, l.Group, machine)); err != nil {
			return err
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("new cgroup namespace: %w", err)
	}
	for _, h := range l.Trees {
		if err := h.stepDown(filepath.Join(h.Path, l.Group, machine)); err != nil {
			return err
		}
	}
	return nil
}

// stepDown makes room for children in a version 2 group: a group whose children
// use controllers may hold no process itself, so the machine's own programs
// live in a leaf beside the pods.
func (h Hierarchy) stepDown(dir string) error {
	if !h.V2 {
		return nil
	}
	leaf := filepath.Join(dir, "machine")
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := join(leaf); err != nil {
		return err
	}
	return h.delegate(dir)
}

func join(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0); err != nil {
		return fmt.Errorf("join control group: %w", err)
	}
	return nil
}

// Remove deletes the groups of a machine, or with an empty name those of all
// machines. It waits a little for processes that are just ending.
func (l Layout) Remove(machine string) error {
	var errs []error
	for _, h := range l.Trees {
		if err := removeTree(filepath.Join(h.Path, l.Group, machine)); err != nil {
			errs = append(errs, fmt.Errorf("remove control group: %w", err))
		}
	}
	return errors.Join(errs...)
}

// removeTree removes directories only, deepest first: the files in them are the
// kernel's.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return rmdir(dir)
}

func rmdir(dir string) error {
	var err error
	for range 100 {
		if err = unix.Rmdir(dir); !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
}
