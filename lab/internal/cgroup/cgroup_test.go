package cgroup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	hybrid = `24 1 0:22 / /sys rw,relatime - sysfs sysfs rw
30 24 0:26 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,release_agent=/lib/x,name=systemd
34 30 0:30 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
35 24 0:31 / /mnt/elsewhere rw,relatime - cgroup cgroup rw,pids
`
	unified = `30 24 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
`
)

func TestTheLayoutIsReadFromTheMounts(t *testing.T) {
	tests := []struct {
		name    string
		mounts  string
		want    []Hierarchy
		unified bool
	}{
		{name: "version 1 hierarchies keep their options", mounts: hybrid, want: []Hierarchy{
			{Path: "/sys/fs/cgroup/cpu,cpuacct", Options: "cpu,cpuacct"},
			{Path: "/sys/fs/cgroup/memory", Options: "memory"},
			{Path: "/sys/fs/cgroup/systemd", Options: "none,name=systemd"},
			{Path: "/sys/fs/cgroup/unified", V2: true},
		}},
		{name: "version 2 alone", mounts: unified, unified: true, want: []Hierarchy{{Path: "/sys/fs/cgroup", V2: true}}},
		{name: "nothing mounted", mounts: "24 1 0:22 / /sys rw - sysfs sysfs rw\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Parse(tt.mounts)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("layout (-want +got):\n%s", diff)
			}
			if is := (Layout{Trees: got}).Unified(); is != tt.unified {
				t.Errorf("Unified() = %v, want %v", is, tt.unified)
			}
		})
	}
}

// The trees below are ordinary directories. They show which files the code writes, not their effect
// in a kernel.

func TestCpusetOfVersion1InheritsCPUs(t *testing.T) {
	root := t.TempDir()
	put(t, root, "cpuset.cpus", "0-1")
	put(t, root, "cpuset.mems", "0")
	if err := tree(Hierarchy{Path: root, Options: "cpuset"}).Create("node-1"); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{group, group + "/node-1"} {
		if got := read(t, root, dir, "cpuset.cpus"); got != "0-1" {
			t.Errorf("%s: cpuset.cpus is %q", dir, got)
		}
	}
}

func TestGroupOfVersion2DelegatesControllers(t *testing.T) {
	root := t.TempDir()
	put(t, root, "cgroup.controllers", "memory")
	put(t, root, "cgroup.subtree_control", "")
	if err := os.Mkdir(filepath.Join(root, group), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(root, group), "cgroup.controllers", "memory")
	put(t, filepath.Join(root, group), "cgroup.subtree_control", "")
	if err := tree(Hierarchy{Path: root, V2: true}).Create("node-1"); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", group} {
		if got := read(t, root, dir, "cgroup.subtree_control"); got != "+memory" {
			t.Errorf("%q: subtree_control is %q", dir, got)
		}
	}
	if _, err := os.Stat(filepath.Join(root, group, "node-1")); err != nil {
		t.Error(err)
	}
}

func TestRemovingAMissingGroupIsNoError(t *testing.T) {
	if err := tree(Hierarchy{Path: t.TempDir()}).Remove(""); err != nil {
		t.Error(err)
	}
}

const group = "lab"

func tree(h Hierarchy) Layout { return Layout{Trees: []Hierarchy{h}, Group: group} }

func put(t *testing.T, dir, file, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, elem ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
