// Package wire builds the lab's network: namespaces, the switch, veth pairs, addresses and routes.
// It changes only namespaces that it names itself, and never the root namespace.
package wire

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// dir is the directory in which ip(8) looks for names.
const dir = "/run/netns"

// Net is the network of one lab. It is the prefix of the names of its namespaces.
type Net string

// Switch is the namespace of the bridges.
const Switch = "switch"

// Netns returns the path of a machine's network namespace.
func (w Net) Netns(machine string) string { return filepath.Join(dir, string(w)+machine) }

// Namespaces returns the machines that have a network namespace, and the switch if it exists.
func (w Net) Namespaces() []string {
	files, _ := filepath.Glob(w.Netns("*"))
	for i, f := range files {
		files[i] = strings.TrimPrefix(filepath.Base(f), string(w))
	}
	return files
}

// create makes a named namespace with its loopback up.
func (w Net) create(machine string) error {
	if err := inNew(func() error { return pin(w.Netns(machine)) }); err != nil {
		return fmt.Errorf("network namespace of %s: %w", machine, err)
	}
	return w.with(machine, func(h *netlink.Handle) error {
		lo, err := h.LinkByName("lo")
		if err != nil {
			return err
		}
		return h.LinkSetUp(lo)
	})
}

// pin gives the calling thread's namespace a name. The name keeps the namespace after the end of
// the thread.
func pin(path string) error {
	if err := share(); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if err != nil {
		return err
	}
	f.Close()
	own := fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid())
	if err := unix.Mount(own, path, "", unix.MS_BIND, ""); err != nil {
		return errors.Join(fmt.Errorf("mount on %s: %w", path, err), os.Remove(path))
	}
	return nil
}

// share makes the directory of names a shared mount, as ip(8) does before its first name. Otherwise
// the first "ip netns add" would do so, and its mount would hide the names of the lab, which could
// never be removed then. The mount stays, as the mount of ip(8) does. share takes the same lock as
// ip(8).
func share() error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close() // unlocks
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", dir, err)
	}
	shared := func() error { return unix.Mount("", dir, "none", unix.MS_SHARED|unix.MS_REC, "") }
	err = shared()
	if errors.Is(err, unix.EINVAL) { // the directory is not a mount yet
		if err = unix.Mount(dir, dir, "none", unix.MS_BIND|unix.MS_REC, ""); err == nil {
			err = shared()
		}
	}
	if err != nil {
		return fmt.Errorf("share %s: %w", dir, err)
	}
	return nil
}

// Delete removes a machine's namespace. A missing namespace is no error.
func (w Net) Delete(machine string) error {
	path := w.Netns(machine)
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil &&
		!errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// with calls f with a netlink handle in a machine's namespace.
func (w Net) with(machine string, f func(*netlink.Handle) error) error {
	ns, err := netns.GetFromPath(w.Netns(machine))
	if err != nil {
		return fmt.Errorf("network namespace of %s: %w", machine, err)
	}
	defer func() { _ = ns.Close() }()
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink in %s: %w", machine, err)
	}
	defer h.Close()
	return f(h)
}

// In runs f with the calling goroutine in the network namespace at path. Sockets that f opens stay
// in that namespace. f must not start goroutines that open sockets.
func In(path string, f func() error) error {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("read own network namespace: %w", err)
	}
	defer home.Close()
	there, err := netns.GetFromPath(path)
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("open network namespace %s: %w", path, err)
	}
	defer there.Close()
	if err := netns.Set(there); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter network namespace %s: %w", path, err)
	}
	err = f()
	if back := netns.Set(home); back != nil {
		// The thread stays locked. So the runtime ends it with this goroutine, instead of reusing
		// it in the wrong namespace.
		return errors.Join(err, fmt.Errorf("leave network namespace %s: %w", path, back))
	}
	runtime.UnlockOSThread()
	return err
}

// inNew runs f on a thread in a new namespace. The thread ends after f.
func inNew(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}
