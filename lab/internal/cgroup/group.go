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

// Create makes the groups of a machine. Creating them twice is not an error.
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

// wanted are the controllers that kubelet and runc need.
var wanted = []string{"cpu", "cpuset", "hugetlb", "io", "memory", "pids"}

// delegate enables the group's controllers for the children of a version 2 group. Controllers that
// systemd has enabled stay enabled.
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

// inheritCPUs fills in the two files that a version 1 cpuset needs before it accepts a process.
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

// Enter moves the calling process into the groups of a machine and makes them the roots of a new
// cgroup namespace. The namespace belongs to the calling thread. So the caller must have locked the
// thread, and continue by exec.
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

// stepDown moves the machine's own programs into a leaf next to the pods. In version 2, a group
// whose children use controllers may not contain a process itself.
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

// Remove deletes the groups of a machine, or of all machines if the name is empty. It waits briefly
// for processes that are just ending.
func (l Layout) Remove(machine string) error {
	var errs []error
	for _, h := range l.Trees {
		if err := removeTree(filepath.Join(h.Path, l.Group, machine)); err != nil {
			errs = append(errs, fmt.Errorf("remove control group: %w", err))
		}
	}
	return errors.Join(errs...)
}

// removeTree removes only directories, deepest first. The kernel owns the files in them.
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
