package routing

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/testing/bgptest"
	"purelb.io/purelb/internal/testing/expect"
)

func TestWhichSolicitationsAreAnswered(t *testing.T) {
	const plain, withMAC = "8500000000000000", "8500000000000000 0101020000000001"
	for _, tt := range []struct {
		name, message, from string
		hopLimit            int
		want                bool
	}{
		{"from a neighbor", withMAC, "fe80::1", 255, true},
		{"without its MAC", plain, "fe80::1", 255, true},
		{"from a neighbor without an address", plain, "::", 255, true},
		{"without an address, but with a MAC", withMAC, "::", 255, false},
		{"through a router", withMAC, "fe80::1", 254, false},
		{"another type", "86" + plain[2:], "fe80::1", 255, false},
		{"an unknown code", "8501" + plain[4:], "fe80::1", 255, false},
		{"truncated", plain[:14], "fe80::1", 255, false},
		{"an option with the length 0", plain + "0100020000000001", "fe80::1", 255, false},
		{"an option longer than the message", plain + "0102020000000001", "fe80::1", 255, false},
		{"half an option", plain + "0101", "fe80::1", 255, false},
		{"nothing", "", "fe80::1", 255, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			message, err := hex.DecodeString(strings.ReplaceAll(tt.message, " ", ""))
			expect.NoError(t, err)
			if got := solicits(message, address(tt.from), tt.hopLimit); got != tt.want {
				t.Errorf("the solicitation is answered: %v, want %v", got, tt.want)
			}
		})
	}
}

func TestWhenToAdvertise(t *testing.T) {
	start := time.Unix(1000, 0)
	var s schedule
	s.sent(start, 8*time.Second)
	if !s.solicited(address("fe80::1")) || s.next != start.Add(8*time.Second) {
		t.Error("a solicitation with an address must be answered directly, and must not change the schedule")
	}
	if s.solicited(address("::")) || s.next != start.Add(advertiseApart) {
		t.Errorf("after a solicitation without an address, the next advertisement to all is due at %v", s.next.Sub(start))
	}
	s.sent(start, time.Second)
	if s.solicited(address("::")); s.next != start.Add(time.Second) {
		t.Errorf("a solicitation has delayed an advertisement to %v", s.next.Sub(start))
	}
}

// wiretap receives the ICMPv6 packets that arrive at eth0 of a space.
type wiretap struct{ fd int }

func (s space) tap(t testing.TB, link string) (w wiretap) {
	t.Helper()
	s.Do(func() {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(uint16(unix.ETH_P_IPV6>>8|unix.ETH_P_IPV6<<8&0xff00)))
		if err != nil {
			t.Error(err)
			return
		}
		w.fd = fd
		wait := unix.NsecToTimeval(int64(bgptest.Patience))
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { _ = unix.Close(w.fd) })
	return w
}

// next returns the next message of this type as text: source, destination, hop limit and contents.
func (w wiretap) next(t testing.TB, kind byte) string {
	t.Helper()
	buf := make([]byte, 2048)
	for {
		n, at, err := unix.Recvfrom(w.fd, buf, 0)
		if errors.Is(err, unix.EINTR) { // the kernel does not restart calls with a timeout
			continue
		}
		if err != nil {
			t.Fatalf("no message of type %d: %v", kind, err)
		}
		if from, ok := at.(*unix.SockaddrLinklayer); !ok || from.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		b := buf[:n]
		if len(b) < 44 || b[6] != unix.IPPROTO_ICMPV6 || b[40] != kind {
			continue
		}
		// The kernel computes the checksum.
		return fmt.Sprintf("%s > %s hop limit %d: %x %x", netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40])), b[7], b[40:42], b[44:])
	}
}

func (s space) advertise(t testing.TB, k *Kernel, link string) {
	t.Helper()
	s.begin(t, func(ctx context.Context) { k.Advertise(ctx, link) })
}

func TestAdvertisementsReachTheOtherEnd(t *testing.T) {
	t.Parallel()
	s, router := newSpace(t), newSpace(t)
	w := router.tap(t, "eth0")
	s.advertise(t, s.kernel(t), "eth7") // the link does not exist yet
	s.connect(t, router, "eth7", "eth0")
	s.IP("link set eth7 address 02:00:00:00:00:01")
	says := func() string {
		return s.linkLocal(t, "eth7").String() + " > ff02::1 hop limit 255: 8600 000000000000000000000000" + "0101020000000001"
	}
	heard := func() bool { return w.next(t, routerAdvertisement) == says() }
	eventually(t, "an advertisement to all", heard)
	eventually(t, "another", heard)

	t.Run("on a link that replaces it", func(t *testing.T) {
		s.IP("link del eth7")
		s.connect(t, router, "eth7", "eth0")
		s.IP("link set eth7 address 02:00:00:00:00:01")
		eventually(t, "an advertisement to all", heard)
	})
}

func TestASolicitationIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	s, other := newSpace(t), newSpace(t)
	s.connect(t, other, "eth0", "eth0")
	from, to := s.linkLocal(t, "eth0"), other.linkLocal(t, "eth0")
	w := other.tap(t, "eth0")
	s.advertise(t, s.kernel(t), "eth0")
	w.next(t, routerAdvertisement)

	k := other.kernel(t)
	l, _, err := k.link(t.Context(), "eth0")
	expect.NoError(t, err)
	var c *icmp
	other.Do(func() {
		if c, err = k.openICMP(t.Context(), l); err == nil {
			defer c.close()
			err = c.send(allRouters, solicitation(l.mac))
		}
	})
	expect.NoError(t, err)
	// Advertisements to all nodes are sent every ten seconds. Only the answer to a solicitation is
	// sent to one receiver.
	want := fmt.Sprintf("%s > %s hop limit 255: 8600 ", from, to)
	eventually(t, "an answer "+want, func() bool { return strings.HasPrefix(w.next(t, routerAdvertisement), want) })
}

// neighborOf calls LinkLocalNeighbor until it returns a neighbor.
func (s space) neighborOf(t testing.TB, k *Kernel, link string) (found netip.Addr) {
	t.Helper()
	eventually(t, "a neighbour", func() bool {
		var ok bool
		var err error
		s.Do(func() { found, ok, err = k.LinkLocalNeighbor(t.Context(), link) })
		expect.NoError(t, err)
		return ok
	})
	return found
}

func TestTheNeighborOnAnUnnumberedLinkIsFound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, forwarding, echo string }{
		{"a router", "1", "0"},
		{"a neighbor that does not forward", "0", "0"},
		{"a neighbor that knows our MAC, and sends no solicitation", "1", "known"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, router := newSpace(t), newSpace(t)
			router.Sysctl("net.ipv6.conf.all.forwarding", tt.forwarding)
			s.connect(t, router, "eth0", "eth0")
			ours, theirs := s.linkLocal(t, "eth0"), router.linkLocal(t, "eth0")
			if tt.echo == "known" {
				mac := strings.Fields(strings.SplitN(s.IP("link show eth0"), "link/ether ", 2)[1])[0]
				router.IP(fmt.Sprintf("neigh replace %s lladdr %s dev eth0 nud permanent", ours, mac))
			}
			if out := s.IP("-6 neigh show dev eth0"); strings.Contains(out, "lladdr") {
				t.Fatalf("the neighbor table is not empty:\n%s", out)
			}
			equal(t, s.neighborOf(t, s.kernel(t), "eth0"), theirs.WithZone("eth0"))
			if out := s.IP("-6 neigh show dev eth0"); !strings.Contains(out, theirs.String()+" lladdr") {
				t.Errorf("the kernel does not know the neighbor:\n%s", out)
			}
		})
	}
}

func TestAReplacedNeighborIsForgotten(t *testing.T) {
	t.Parallel()
	s, router := newSpace(t), newSpace(t)
	router.Sysctl("net.ipv6.conf.all.forwarding", "1")
	s.connect(t, router, "eth0", "eth0")
	s.Sysctl("net.ipv6.neigh.eth0.base_reachable_time_ms", "500")
	s.Sysctl("net.ipv6.neigh.eth0.delay_first_probe_time", "1")
	s.Sysctl("net.ipv6.neigh.eth0.retrans_time_ms", "100")
	s.linkLocal(t, "eth0")
	router.linkLocal(t, "eth0")
	k := s.kernel(t)
	s.neighborOf(t, k, "eth0")
	router.IP(`addr flush dev eth0
		addr add fe80::99/64 dev eth0 nodad`)
	eventually(t, "the new neighbor is found", func() (found bool) {
		s.Do(func() {
			// During the replacement, LinkLocalNeighbor may return an error.
			n, ok, _ := k.LinkLocalNeighbor(t.Context(), "eth0")
			found = ok && n == address("fe80::99%eth0")
		})
		return found
	})
}

func TestTheRouterLearnsTheNodeFromAdvertisements(t *testing.T) {
	t.Parallel()
	s, node := newSpace(t), newSpace(t)
	s.Sysctl("net.ipv6.conf.all.forwarding", "1")
	s.connect(t, node, "eth0", "eth0")
	theirs := node.linkLocal(t, "eth0")
	node.advertise(t, node.kernel(t), "eth0")
	eventually(t, "the router knows the node", func() bool {
		return strings.Contains(s.IP("-6 neigh show dev eth0"), theirs.String()+" lladdr")
	})
	if routes := s.IP("-6 route show default"); routes != "" {
		t.Errorf("the node is a default router:\n%s", routes)
	}
}

func TestALinkWithoutANeighborHasNone(t *testing.T) {
	t.Parallel()
	s, other := newSpace(t), newSpace(t)
	s.connect(t, other, "eth0", "eth0")
	s.linkLocal(t, "eth0")
	other.IP("link del eth0")
	s.IP("link add br0 type bridge\nlink set br0 up\nlink add br1 type bridge")
	k := s.kernel(t)
	for _, name := range []string{"eth0", "br0", "br1", "eth9", "", strings.Repeat("x", 20)} {
		s.Do(func() {
			if found, ok, err := k.LinkLocalNeighbor(t.Context(), name); ok || err != nil {
				t.Errorf("%s: LinkLocalNeighbor returns %v, %v, %v; want none", name, found, ok, err)
			}
		})
	}
}

func TestTheBestOfSeveralNeighborsIsChosen(t *testing.T) {
	n := func(text string, state uint16, router bool) neighbor {
		return neighbor{link: 1, addr: address(text), state: state, router: router}
	}
	for _, tt := range []struct {
		name string
		all  []neighbor
		want string
	}{
		{"no neighbor", nil, ""},
		{"one neighbor", []neighbor{n("fe80::1", unix.NUD_STALE, false)}, "fe80::1"},
		{"a router is better than a host", []neighbor{n("fe80::1", unix.NUD_REACHABLE, false), n("fe80::2", unix.NUD_STALE, true)}, "fe80::2"},
		{"a reachable router is better than a stale one", []neighbor{n("fe80::1", unix.NUD_STALE, true), n("fe80::2", unix.NUD_REACHABLE, true)}, "fe80::2"},
		{"two routers that answer", []neighbor{n("fe80::1", unix.NUD_REACHABLE, true), n("fe80::2", unix.NUD_DELAY, true)}, "fe80::1 fe80::2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, l := range likely(tt.all) {
				got = append(got, l.addr.String())
			}
			equal(t, strings.Join(got, " "), tt.want)
		})
	}
}

func TestSeveralEqualNeighborsAreAnError(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.IP("link add eth0 type bridge\nlink set eth0 up")
	for _, name := range []string{"port0", "port1"} {
		other := newSpace(t)
		other.Sysctl("net.ipv6.conf.all.forwarding", "1")
		s.IP(fmt.Sprintf("link add %s type veth peer name eth0 netns %s\nlink set %[1]s master eth0 up", name, other.Path()))
		other.IP("link set eth0 up")
		other.advertise(t, other.kernel(t), "eth0")
	}
	s.linkLocal(t, "eth0")
	k := s.kernel(t)
	eventually(t, "both neighbors are known", func() bool {
		var ok bool
		var err error
		s.Do(func() { _, ok, err = k.LinkLocalNeighbor(t.Context(), "eth0") })
		return !ok && err != nil && strings.HasPrefix(err.Error(), "2 neighbors on eth0, such as fe80::")
	})
}
