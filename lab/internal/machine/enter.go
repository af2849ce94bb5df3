package machine

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Inside runs f on a thread in all namespaces of process pid. Programs that f starts become
// processes of that machine. Namespaces belong to threads. A thread that was locked and never unlocked
// ends with its goroutine, so nothing must be restored.
func Inside(pid int, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := errors.New("exited")
		defer func() { done <- err }()
		err = inAll(pid, f)
	}()
	return <-done
}

// inAll runs f with the calling thread in all namespaces of process pid.
func inAll(pid int, f func() error) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(fd) }()
	// A thread needs its own working directory before it may change its mounts.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	// To enter mounts also means to leave a chroot: setns(2) makes the root of the namespace the root of
	// the thread. The machine's root is that of its first process.
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("the root of process %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(root) }()
	const all = unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWPID | unix.CLONE_NEWCGROUP | unix.CLONE_NEWNS
	if err := unix.Setns(fd, all); err != nil {
		return fmt.Errorf("enter the namespaces of process %d: %w", pid, err)
	}
	if err := errors.Join(unix.Fchdir(root), unix.Chroot(".")); err != nil {
		return fmt.Errorf("enter the root of process %d: %w", pid, err)
	}
	return f()
}
