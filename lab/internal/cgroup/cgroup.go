// Package cgroup gives each machine a subtree of the host's control groups. It works on hosts with
// version 1 hierarchies, including the hybrid layout, and on hosts with only version 2. It knows
// nothing of the processes in a group.
package cgroup

import (
	"errors"
	"os"
	"slices"
	"strings"
)

// Hierarchy is a mounted tree of control groups.
type Hierarchy struct {
	Path    string // the mount point
	Options string // mount options; empty for version 2
	V2      bool
}

// Layout describes how the host has mounted its control groups. It has the name of the group that,
// in each tree, contains the groups of a lab's machines.
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

// controllers returns those mount options of a version 1 hierarchy that identify it.
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

// Unified reports whether the host has only version 2.
func (l Layout) Unified() bool { return len(l.Trees) == 1 && l.Trees[0].V2 }
