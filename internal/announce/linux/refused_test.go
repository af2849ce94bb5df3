package linux

import (
	"errors"
	"net/netip"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/testing/expect"
)

// SELinux lets a container have sockets for routes and packets, and refuses others, such as those for
// netfilter. A user namespace refuses socket options that need a privilege of the machine.
func TestTheStackOpensWithTheSocketsThatSELinuxAllows(t *testing.T) {
	newWorld(t)
	newNeighborhood(t)
	refuse(t, unix.EACCES,
		systemCall{unix.SYS_SOCKET, map[int]uint32{0: unix.AF_NETLINK, 2: unix.NETLINK_NETFILTER}},
		systemCall{unix.SYS_SETSOCKOPT, map[int]uint32{1: unix.SOL_SOCKET, 2: unix.SO_RCVBUFFORCE}})
	if fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER); err == nil {
		_ = unix.Close(fd)
		t.Fatal("the socket is not refused")
	}
	s := newStack(t)
	if _, err := s.Changes(t.Context()); err != nil {
		t.Error(err)
	}
	a := local("eth0", "192.0.2.9/24")
	put(t, s, a)
	remove(t, s, a)
	if err := s.Guard(t.Context(), []netip.Addr{a.Prefix.Addr()}); !errors.Is(err, unix.EACCES) {
		t.Errorf("the table without such a socket: %v", err)
	}
	guard(t, s)
}

// systemCall is a system call with these arguments, by position.
type systemCall struct {
	number    uint32
	arguments map[int]uint32
}

// refuse makes the kernel refuse calls to the thread of a test that has called newWorld.
func refuse(t *testing.T, errno unix.Errno, calls ...systemCall) {
	t.Helper()
	const allow, fail = 0x7fff0000, 0x00050000 // SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	equals := func(value uint32, otherwise int) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jf: uint8(otherwise)}
	}
	end := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	var program []unix.SockFilter
	for _, c := range calls {
		left := 2*len(c.arguments) + 1 // the instructions up to the end of this call
		program = append(program, load(0), equals(c.number, left))
		for i, value := range c.arguments {
			left -= 2
			program = append(program, load(16+8*uint32(i)), equals(value, left))
		}
		program = append(program, end(fail|uint32(errno)))
	}
	program = append(program, end(allow))
	expect.NoError(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	const modeFilter = 1 // SECCOMP_SET_MODE_FILTER
	list := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, err := unix.RawSyscall(unix.SYS_SECCOMP, modeFilter, 0, uintptr(unsafe.Pointer(&list))); err != 0 {
		t.Fatal(err)
	}
}
