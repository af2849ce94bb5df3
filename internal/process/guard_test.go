package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/testing/expect"
)

func TestGuardAdmitsOnlyTheNodesAddresses(t *testing.T) {
	service := netip.MustParseAddr("192.0.2.9")
	errRead := errors.New("dump interrupted")
	for _, tt := range []struct {
		name, local string
		err         error
		want        bool
	}{
		{"an address of the node", "192.0.2.1", nil, true},
		{"an address of a Service", "192.0.2.9", nil, false},
		{"an address of a Service, mapped into IPv6", "::ffff:192.0.2.9", nil, false},
		{"an IPv6 address of a Service", "2001:db8::9", nil, false},
		{"an IPv6 address of the node", "2001:db8::1", nil, true},
		{"an address of the node while the addresses are unreadable", "192.0.2.1", errRead, false},
		{"loopback, always", "127.0.0.1", errRead, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := &guard{ctx: t.Context(), services: func(context.Context) (map[netip.Addr]bool, error) {
				return map[netip.Addr]bool{service: true, netip.MustParseAddr("2001:db8::9"): true}, tt.err
			}}
			local := net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(tt.local), 7472))
			expect.Equal(t, "admits "+tt.local, g.admits(local, time.Now()), tt.want)
		})
	}
}

func TestFailedReadChangesNothing(t *testing.T) {
	service := netip.MustParseAddr("192.0.2.9")
	var err error
	g := &guard{ctx: t.Context(), services: func(context.Context) (map[netip.Addr]bool, error) {
		if err != nil {
			return nil, err
		}
		return map[netip.Addr]bool{service: true}, nil
	}}
	now := time.Now()
	for range 2 {
		for local, want := range map[string]bool{"192.0.2.1": true, "192.0.2.9": false} {
			expect.Equal(t, fmt.Sprintf("admits %s (the read fails: %v)", local, err), g.admits(net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(local), 7472)), now), want)
		}
		now, err = now.Add(time.Minute), errors.New("dump interrupted 10 times")
	}
}

func TestTheGuardReadsAtMostOnceASecond(t *testing.T) {
	reads := 0
	g := &guard{ctx: t.Context(), services: func(context.Context) (map[netip.Addr]bool, error) {
		reads++
		return nil, nil
	}}
	local := net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:7472"))
	now := time.Now()
	for _, at := range []time.Duration{0, time.Millisecond, 999 * time.Millisecond, time.Second, 1500 * time.Millisecond} {
		g.admits(local, now.Add(at))
	}
	expect.Equal(t, "readings", reads, 2)
}

// The node has its own address and the address of a Service. The server listens on all addresses.
func TestServerAnswersOnlyOnTheNodesAddresses(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the thread dies with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("make a network namespace (run this test as root): %v", err)
	}
	for _, args := range []string{
		"link set lo up", "addr add 192.0.2.1/32 dev lo", "addr add 192.0.2.9/32 dev lo",
		"addr add 2001:db8::1/128 dev lo", "addr add 2001:db8::9/128 dev lo",
	} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v\n%s", args, err, out)
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "[::]:7472")
	expect.NoError(t, err)
	services := func(context.Context) (map[netip.Addr]bool, error) {
		return map[netip.Addr]bool{netip.MustParseAddr("192.0.2.9"): true, netip.MustParseAddr("2001:db8::9"): true}, nil
	}
	go func() {
		_ = Server{Handler: Probe(func() error { return nil })}.serve(t.Context(), &guard{Listener: listener, ctx: t.Context(), services: services})
	}()
	for host, want := range map[string]string{
		"127.0.0.1": "200 OK", "192.0.2.1": "200 OK", "2001:db8::1": "200 OK", "192.0.2.9": "", "2001:db8::9": "",
	} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", net.JoinHostPort(host, "7472"))
		expect.NoError(t, err)
		_, _ = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
		text, _ := io.ReadAll(conn)
		_ = conn.Close()
		if got := string(text); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("on %s the server answers %q, want %q", host, got, want)
		}
	}
}
