package linux

import (
	"fmt"
	"testing"
	"time"

	"purelb.io/purelb/internal/testing/expect"
)

// quiet drops the signals of earlier changes, until none arrives for a while. After a link is made,
// the kernel reports changes of it for a moment.
func quiet(changed <-chan struct{}) {
	for {
		select {
		case <-changed:
		case <-time.After(100 * time.Millisecond):
			return
		}
	}
}

func signalled(changed <-chan struct{}, within time.Duration) bool {
	select {
	case <-changed:
		return true
	case <-time.After(within):
		return false
	}
}

func TestChangesAreSignalled(t *testing.T) {
	newWorld(t)
	s := newStack(t)
	ip(t, `link add eth0 type veth peer name eth1
		link set eth0 up
		link set eth1 up
		addr add 192.0.2.1/24 dev eth0
		addr add fd00::1/64 dev eth0 nodad
		link add br0 type bridge`)
	for _, link := range []string{"eth0", "eth1"} {
		isUp(t, link)
	}
	served(t, "eth0", "fe80:", "fd00::1")
	served(t, "eth1", "fe80:")
	changed, err := s.Changes(t.Context())
	expect.NoError(t, err)
	for _, tt := range []struct {
		command string
		want    bool
	}{
		{"route add 198.51.100.0/24 via 192.0.2.254", false},
		{"-6 route add 2001:db8::/64 via fd00::fe", false},
		{"route add 198.51.100.7/32 dev eth0", false},
		{"route add 203.0.113.0/28 dev eth0", true},
		{"-6 route add 2001:db8:1::/64 dev eth0", true},
		{"-6 route del 2001:db8:1::/64 dev eth0", true},
		{"route add default via 192.0.2.254 table 100", true},
		{"link add ifb7 type ifb", true},
		{"link set eth1 down", true}, // carrier of eth0
		{"link set eth1 up", true},
		{"addr add 192.0.2.7/24 dev eth0", true},
		{"addr add fd00::7/64 dev eth0 nodad", true},
		{"addr del 192.0.2.7/24 dev eth0", true},
		{"addr del fd00::7/64 dev eth0", true},
		{"route add default via 192.0.2.254", true},
		{"-6 route add default via fd00::fe", true},
		{"route del default", true},
		{"-6 route del default", true},
		{"link del ifb7", true},
	} {
		quiet(changed)
		ip(t, tt.command)
		within := 100 * time.Millisecond
		if tt.want {
			within = patience
		}
		expect.Equal(t, fmt.Sprintf("ip %s: signalled", tt.command), signalled(changed, within), tt.want)
	}
}

func TestOurOwnChangesAreNotSignalled(t *testing.T) {
	newWorld(t)
	s := newStack(t)
	ip(t, "link add eth0 type ifb\nlink set eth0 up")
	served(t, "eth0", "fe80:")
	changed, err := s.Changes(t.Context())
	expect.NoError(t, err)
	ours := block("eth0", "198.18.0.1/32", 10)
	quiet(changed)
	put(t, s, ours...)
	if signalled(changed, 200*time.Millisecond) {
		t.Error("the stack's own Put is signalled")
	}
	put(t, s, ours...)
	if signalled(changed, 200*time.Millisecond) {
		t.Error("the stack's own renewal is signalled")
	}
	ip(t, "addr del 198.18.0.3/32 dev eth0")
	if !signalled(changed, patience) {
		t.Error("the removal by another process is not signalled")
	}
	quiet(changed)
	expect.NoError(t, s.Remove(t.Context(), ours))
	if signalled(changed, 200*time.Millisecond) {
		t.Error("the stack's own Remove is signalled")
	}
}
