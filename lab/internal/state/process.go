package state

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process identifies a process beyond doubt. The kernel reuses process ids, but not with the same
// start time in the same boot.
type Process struct {
	PID   int
	Start uint64 // clock ticks since boot
	Boot  string
}

// Identify returns the identity of the running process pid.
func Identify(pid int) (Process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, err
	}
	start, err := startTime(stat)
	if err != nil {
		return Process{}, err
	}
	return Process{PID: pid, Start: start, Boot: boot()}, nil
}

// Alive reports whether the process runs. A zombie does not run.
func (p Process) Alive() bool {
	if p.PID <= 0 {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
	if err != nil || p.Boot != boot() {
		return false
	}
	start, err := startTime(stat)
	return err == nil && start == p.Start && state(stat) != "Z"
}

// Kill kills the process and waits for its end. A process that has already ended is no error.
func (p Process) Kill() error {
	if !p.Alive() {
		return nil
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", p.PID, err)
	}
	defer func() { _ = unix.Close(fd) }()
	if !p.Alive() { // before the open, another process may have got the id
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill %d: %w", p.PID, err)
	}
	return p.wait(fd)
}

// wait returns after the process and all its threads have ended. If it is the first process of a
// machine, all processes of the machine have ended, too.
func (p Process) wait(fd int) error {
	const limit = 20 * time.Second
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, int(limit.Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait for process %d: %w", p.PID, err)
		case n == 0:
			return fmt.Errorf("process %d did not end within %s of being killed", p.PID, limit)
		default:
			return nil
		}
	}
}

// The command name, in parentheses, may contain any character. The fields count from the last
// parenthesis.
func fields(stat []byte) []string {
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
}

func state(stat []byte) string {
	f := fields(stat)
	if len(f) == 0 {
		return ""
	}
	return f[0]
}

func startTime(stat []byte) (uint64, error) {
	const index = 19 // field 22 of proc(5), counted from the state
	f := fields(stat)
	if len(f) <= index {
		return 0, fmt.Errorf("stat %q: too short", stat)
	}
	return strconv.ParseUint(f[index], 10, 64)
}

func boot() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}
