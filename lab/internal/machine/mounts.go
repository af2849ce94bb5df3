package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/lab/internal/cgroup"
)

// furnish turns the first process's copy of the host's file system into that of the machine.
func furnish(s Spec, groups cgroup.Layout) error {
	kept, err := open(s)
	if err != nil {
		return err
	}
	steps := []func() error{
		detach,
		kernelFiles,
		func() error { return groupFiles(s, groups) },
		privateDirs,
		func() error { return kept.bind() },
		func() error { return writeFiles(s.files()) },
		shield,
		// The kubelet needs mounts to propagate into containers.
		func() error { return mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "") },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// detach prevents later mounts from reaching the host.
func detach() error { return mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }

// kernelFiles mounts /proc and /sys, which then show the machine's processes and interfaces, and an
// empty /run, in which daemons have their sockets.
func kernelFiles() error {
	return errors.Join(
		mount("proc", "/proc", "proc", 0, ""),
		mount("sysfs", "/sys", "sysfs", 0, ""),
		mount("tmpfs", "/run", "tmpfs", 0, "mode=755,size=512m"),
		os.MkdirAll("/run/lock", 0o755),
		os.MkdirAll("/run/netns", 0o755),
	)
}

// groupFiles mounts the control groups again. In the machine's cgroup namespace, their roots are
// the machine's own groups.
func groupFiles(s Spec, groups cgroup.Layout) error {
	switch {
	case !s.Cgroups:
		return nil
	case groups.Unified():
		return mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, "")
	}
	if err := mount("tmpfs", "/sys/fs/cgroup", "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	for _, h := range groups.Trees {
		if h.V2 {
			continue
		}
		if err := os.MkdirAll(h.Path, 0o755); err != nil {
			return err
		}
		if err := mount("cgroup", h.Path, "cgroup", 0, h.Options); err != nil {
			return err
		}
	}
	return nil
}

func privateDirs() error {
	for _, dir := range overlays {
		up, work := filepath.Join(scratch, dir, "up"), filepath.Join(scratch, dir, "work")
		if err := errors.Join(os.MkdirAll(up, 0o755), os.MkdirAll(work, 0o755)); err != nil {
			return err
		}
		options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", dir, up, work)
		if err := mount("overlay", dir, "overlay", 0, options); err != nil {
			return err
		}
	}
	return nil
}

// keeper holds directories of the host open while mounts cover their paths.
type keeper map[string]*os.File

func open(s Spec) (keeper, error) {
	k := keeper{}
	sources := map[string]string{}
	for _, dir := range s.Keep {
		sources[dir] = dir
	}
	for at, dir := range s.Disks {
		sources[at] = dir
	}
	for at, dir := range sources {
		f, err := os.Open(dir)
		if err != nil {
			return nil, err
		}
		k[at] = f
	}
	return k, nil
}

func (k keeper) bind() error {
	for at, f := range k {
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		if err := mount(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), at, "", unix.MS_BIND, ""); err != nil {
			return err
		}
		f.Close()
	}
	return nil
}

func writeFiles(files []File) error {
	for _, f := range files {
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
			return err
		}
		// A symbolic link, such as resolv.conf often is, would lead out of the overlay.
		if fi, err := os.Lstat(f.Path); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
			if err := os.Remove(f.Path); err != nil {
				return err
			}
		}
		if err := os.WriteFile(f.Path, []byte(f.Text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// shield mounts files over the kernel settings that must not change, and over the boot id. A new
// boot id tells the kubelet that the machine restarted.
func shield() error {
	texts := map[string]string{bootIDFile: newBootID()}
	for target, text := range shields {
		texts[target] = text
	}
	for target, text := range texts {
		file := shieldFile(target)
		if err := writeFiles([]File{{file, text}}); err != nil {
			return err
		}
		err := mount(file, target, "", unix.MS_BIND, "")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

const bootIDFile = "/proc/sys/kernel/random/boot_id"

func newBootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/uuid")
	return string(b)
}

// BootID returns the boot id of the machine whose first process is pid.
func BootID(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/root%s", pid, shieldFile(bootIDFile)))
	return strings.TrimSpace(string(b))
}

func mount(source, target, kind string, flags uintptr, options string) error {
	if err := unix.Mount(source, target, kind, flags, options); err != nil {
		what := strings.TrimSpace(kind + " " + options)
		return fmt.Errorf("mount %s on %s (%s): %w", source, target, what, err)
	}
	return nil
}
