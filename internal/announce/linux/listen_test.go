package linux

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/testing/expect"
)

// mine returns our addresses. One is on eth1, and all others are on eth0.
func mine() map[netip.Addr]string {
	return map[netip.Addr]string{
		netip.MustParseAddr("192.0.2.9"): "eth0",
		netip.MustParseAddr("fd00::9"):   "eth0",
		netip.MustParseAddr("192.0.2.7"): "eth1",
	}
}

func listen(t *testing.T, ctx context.Context, s *Stack, mine func() map[netip.Addr]string) <-chan announce.Heard {
	t.Helper()
	heard, err := s.Listen(ctx, mine)
	expect.NoError(t, err)
	return heard
}

func showHeard(h announce.Heard) string {
	return h.Link + " " + showSaid(said{addr: h.Addr, mac: h.MAC, probe: h.Probe})
}

// next returns the next report.
func next(t *testing.T, heard <-chan announce.Heard) string {
	t.Helper()
	select {
	case h, open := <-heard:
		if !open {
			t.Fatal("the channel is closed")
		}
		if h.At.IsZero() || h.At.After(time.Now()) {
			t.Errorf("the report came at %s", h.At)
		}
		return showHeard(h)
	case <-time.After(patience):
		t.Fatal("Listen reports no packet")
		return ""
	}
}

func TestListenReportsClaimsOfOurAddresses(t *testing.T) {
	v4, v6 := netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("fd00::9")
	other := [6]byte{2, 0, 0, 0, 0, 3}
	second := [6]byte{2, 0, 0, 0, 0, 8} // the MAC of another link of this node
	everybody := [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	allNodes, group := [6]byte{0x33, 0x33, 0, 0, 0, 1}, [6]byte(groupBytes(v6))
	arp := func(from [6]byte, packet []byte) []byte {
		return addressed(everybody, from, unix.ETH_P_ARP, packet)
	}
	ours, theirs := v4.As4(), [4]byte{192, 0, 2, 2}
	resolution := neighborMessage("fd00::2", solicitedNode(v6).String(),
		append([]byte{neighborSolicitation, 0, 0, 0, 0, 0, 0, 0}, v6.AsSlice()...))
	const claim, claim6 = "eth0 020000000003 has 192.0.2.9", "eth0 020000000003 has fd00::9"
	tests := []struct {
		name  string
		frame []byte
		want  string
	}{
		{"a gratuitous request", arp(other, gratuitousARP(arpRequest, other, v4)), claim},
		{"a gratuitous reply", arp(other, gratuitousARP(arpReply, other, v4)), claim},
		{"an ordinary question from our address", arp(other, packetARP(arpRequest, other, ours, [6]byte{}, theirs)), claim},
		{"a probe", arp(other, probeARP(other, v4)), "eth0 020000000003 wants 192.0.2.9"},
		{"an advertisement", addressed(allNodes, other, unix.ETH_P_IPV6, unsolicitedNA(other, v6, v6, override)), claim6},
		{"a probe in IPv6", addressed(group, other, unix.ETH_P_IPV6, probeNS(v6)), "eth0 020000000003 wants fd00::9"},

		{"not an ordinary question for our address", arp(other, packetARP(arpRequest, other, theirs, [6]byte{}, ours)), ""},
		{"not an ordinary question in IPv6", addressed(group, other, unix.ETH_P_IPV6, resolution), ""},
		{"not a claim of another address", arp(other, gratuitousARP(arpRequest, other, netip.MustParseAddr("192.0.2.8"))), ""},
		{"not a claim of our address on another link", arp(other, gratuitousARP(arpRequest, other, netip.MustParseAddr("192.0.2.7"))), ""},
		{"a packet of another link of ours", arp(second, gratuitousARP(arpRequest, second, v4)), "eth0 020000000008 has 192.0.2.9"},
		{"not a packet in a VLAN", addressed(everybody, other, unix.ETH_P_8021Q, append([]byte{0, 7, 8, 6}, gratuitousARP(arpRequest, other, v4)...)), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			newWorld(t)
			there := newNeighborhood(t)
			fd := there.capture(t)
			ip(t, `link add eth8 type veth peer name eth9
				link set eth8 address 02:00:00:00:00:08 up
				addr add 192.0.2.9/24 dev eth0
				addr add fd00::9/64 dev eth0 nodad`)
			heard := listen(t, t.Context(), newStack(t), mine)
			last := [6]byte{2, 0, 0, 0, 0, 0x99}
			family := arp(last, gratuitousARP(arpRequest, last, v4))
			if tt.frame[12] == 0x86 {
				family = addressed(allNodes, last, unix.ETH_P_IPV6, unsolicitedNA(last, v6, v6, override))
			}
			there.say(t, fd, tt.frame, family)
			if tt.want != "" {
				expect.Equal(t, "heard", next(t, heard), tt.want)
			}
			if got := next(t, heard); got[:len("eth0 020000000099")] != "eth0 020000000099" {
				t.Errorf("heard %s", got)
			}
		})
	}
}

func TestClaimsOfTwoStacksAreReported(t *testing.T) {
	newWorld(t)
	there := newNeighborhood(t)
	here := newStack(t)
	var other *Stack
	there.do(func() { other = newStack(t) })
	a := []announce.Address{local("eth0", "192.0.2.9/24"), local("eth0", "fd00::9/64")}
	put(t, here, a...)
	put(t, other, a...)
	heard := listen(t, t.Context(), here, mine)
	for _, addr := range addrsOf("192.0.2.9", "fd00::9") {
		expect.NoError(t, other.Claim(t.Context(), "eth0", addr))
	}
	eventually(t, "other gets answers for both addresses", func() bool { return len(probe(t, other, "eth0", "192.0.2.9", "fd00::9")) == 2 })
	missing := map[string]bool{
		"eth0 020000000002 has 192.0.2.9": true, "eth0 020000000002 has fd00::9": true,
		"eth0 020000000002 wants 192.0.2.9": true, "eth0 020000000002 wants fd00::9": true,
	}
	for len(missing) > 0 {
		delete(missing, next(t, heard))
	}
}

func TestListeningFollowsTheAddresses(t *testing.T) {
	newWorld(t)
	ip(t, "link add eth0 type veth peer name far0\nlink set far0 up\nlink set eth0 up")
	fd := capture(t)
	var ours atomic.Pointer[map[netip.Addr]string]
	ours.Store(&map[netip.Addr]string{})
	heard := listen(t, t.Context(), newStack(t), func() map[netip.Addr]string { return *ours.Load() })
	mac, addr := [6]byte{2, 0, 0, 0, 0, 3}, netip.MustParseAddr("192.0.2.9")
	claim := addressed([6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, mac, unix.ETH_P_ARP, gratuitousARP(arpRequest, mac, addr))
	const add77 = "link add eth0 index 77 type veth peer name far0\nlink set far0 up\nlink set eth0 up"
	for _, tt := range []struct{ script, link string }{
		{"", "eth0"},
		{"link set eth0 down\nlink set eth0 up", "eth0"},
		{"link set eth0 down\nlink set eth0 name net7\nlink set net7 up", "net7"},
		{"link del net7\nlink add net7 type veth peer name far0\nlink set far0 up\nlink set net7 up", "net7"},
		{"link add br0 type bridge\nlink set br0 up\nlink set net7 master br0", "br0"},
		{"link del net7\n" + add77, "eth0"},
		{"link del eth0\n" + add77, "eth0"}, // a link keeps its index on its way to another namespace and back
	} {
		ip(t, tt.script)
		ours.Store(&map[netip.Addr]string{addr: tt.link})
		eventually(t, "Listen reports claims on "+tt.link, func() bool {
			say(t, fd, "far0", claim)
			select {
			case h := <-heard:
				return showHeard(h) == tt.link+" 020000000003 has 192.0.2.9"
			case <-time.After(50 * time.Millisecond):
				return false
			}
		})
	}
}

// A reader that falls behind misses packets, but costs no memory.
func TestSlowReaderMissesPackets(t *testing.T) {
	newWorld(t)
	there := newNeighborhood(t)
	fd := there.capture(t)
	s := newStack(t)
	ctx, cancel := context.WithCancel(t.Context())
	heard := listen(t, ctx, s, mine)
	mac := [6]byte{2, 0, 0, 0, 0, 3}
	claim := addressed([6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, mac, unix.ETH_P_ARP,
		gratuitousARP(arpRequest, mac, netip.MustParseAddr("192.0.2.9")))
	for range 500 {
		there.say(t, fd, claim)
	}
	eventually(t, "as many reports wait for the reader as there is room for", func() bool { return len(heard) == heardRoom })
	cancel()
	for range heard {
	}
	there.say(t, fd, claim)
	if err := s.receiver.catchUp(); err != nil {
		t.Error(err)
	}
}

// The sockets stay in their namespace, whichever thread uses them.
func TestAStackStaysInItsNamespace(t *testing.T) {
	newWorld(t)
	there := newNeighborhood(t)
	fd := there.capture(t)
	s := newStack(t)
	started := make(chan (<-chan announce.Heard))
	go func() { // on a thread in the namespace of the host
		defer close(started)
		node, err := s.Observe(t.Context())
		if got, want := links(node), "eth0 veth up carrier\n"; err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
		heard, err := s.Listen(t.Context(), mine)
		if err != nil {
			t.Error(err)
		}
		started <- heard
	}()
	heard := <-started
	mac := [6]byte{2, 0, 0, 0, 0, 3}
	there.say(t, fd, addressed([6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, mac, unix.ETH_P_ARP,
		gratuitousARP(arpRequest, mac, netip.MustParseAddr("192.0.2.9"))))
	expect.Equal(t, "heard", next(t, heard), "eth0 020000000003 has 192.0.2.9")
}
