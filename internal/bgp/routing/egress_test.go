package routing

import (
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/rtnetlink"
	"purelb.io/purelb/internal/testing/bgptest"
	"purelb.io/purelb/internal/testing/expect"
)

func address(text string) netip.Addr { return netip.MustParseAddr(text) }

func addrs(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, address(text))
	}
	return all
}

func TestTheRouteToANeighbor(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.connect(t, newSpace(t), "eth1", "eth0")
	s.linkLocal(t, "eth1")
	s.IP(`link add eth0 type bridge
		link set eth0 address 02:00:00:00:00:01 up
		link add eth2 type bridge
		addr add 192.0.2.9/24 dev eth0
		addr add 192.0.2.5/24 dev eth0
		addr add 2001:db8::9/64 dev eth0 nodad
		addr add 2001:db8::5/64 dev eth0 nodad
		addr add 203.0.113.1/24 dev eth1
		addr add fd00::1/64 dev eth1 nodad
		route add 198.51.100.0/24 via 192.0.2.254
		route add 198.51.100.7/32 via 192.0.2.254 src 192.0.2.5
		route add unreachable 100.64.0.0/24
		route add blackhole 100.64.1.0/24
		route add prohibit 100.64.2.0/24
		-6 route add 2001:db8:1::/48 via 2001:db8::fe
		-6 route add unreachable 2001:db8:2::/48
		addr add 192.0.2.77/32 dev lo`)
	k := s.kernel(t)
	eth0 := addrs("192.0.2.9", "2001:db8::5", "2001:db8::9", "192.0.2.5")
	for _, tt := range []struct {
		name, neighbor, device, iface string
		addresses                     []netip.Addr
	}{
		{"a neighbor on the link", "192.0.2.254", "", "eth0", eth0},
		{"behind a gateway", "198.51.100.1", "", "eth0", eth0},
		{"the preferred source of the route is first", "198.51.100.7", "", "eth0", addrs("192.0.2.5", "192.0.2.9", "2001:db8::5", "2001:db8::9")},
		{"an IPv6 neighbor on the link", "fd00::2", "", "eth1", addrs("fd00::1", "203.0.113.1")},
		{"on an interface by zone", "fe80::fe%eth1", "", "eth1", addrs("203.0.113.1", "fd00::1")},
		{"on an interface by name", "fe80::fe", "eth1", "eth1", addrs("203.0.113.1", "fd00::1")},
		{"link-local without an interface", "fe80::fe", "", "", nil},
		{"on an interface that is down", "fe80::fe%eth2", "", "", nil},
		{"on a missing interface", "fe80::fe%eth3", "", "", nil},
		{"no route", "8.8.8.8", "", "", nil},
		{"no IPv6 route", "2001:4860::1", "", "", nil},
		{"unreachable", "100.64.0.1", "", "", nil},
		{"a blackhole route", "100.64.1.1", "", "", nil},
		{"prohibited", "100.64.2.1", "", "", nil},
		{"IPv6 unreachable", "2001:db8:2::1", "", "", nil},
		{"this node itself", "192.0.2.77", "", "lo", addrs("192.0.2.77")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok, err := k.Egress(t.Context(), address(tt.neighbor), tt.device)
			if err != nil || ok != (tt.iface != "") {
				t.Fatalf("Egress = %v, %v, %v", got, ok, err)
			}
			want := peering.Egress{Interface: tt.iface, Addresses: tt.addresses}
			if strings.HasPrefix(tt.neighbor, "198.51.100.") {
				want.Gateway = address("192.0.2.254")
			}
			equal(t, got, want)
		})
	}
	t.Run("no addresses", func(t *testing.T) {
		if _, ok, err := k.Egress(t.Context(), netip.Addr{}, ""); ok || err != nil {
			t.Errorf("Egress = %v, %v", ok, err)
		}
	})
}

func TestInvalidNextHops(t *testing.T) {
	t.Parallel()
	s, other := newSpace(t), newSpace(t)
	s.connect(t, other, "eth0", "eth0")
	other.IP("addr add 2001:db8::dad/64 dev eth0 nodad")
	other.served(t, "eth0", "2001:db8::dad")
	s.IP(`addr add 192.0.2.1/24 dev eth0
		addr add 192.0.2.8/24 dev eth0
		addr add 192.0.2.7/24 dev eth0 preferred_lft 0
		addr add 2001:db8::1/64 dev eth0 nodad
		addr add 2001:db8::7/64 dev eth0 nodad preferred_lft 0
		addr add 2001:db8::dad/64 dev eth0
		addr add 169.254.1.1/16 dev eth0`)
	s.service(t, "eth0", "192.0.2.9/24")
	s.service(t, "eth0", "2001:db8::9/64")
	s.linkLocal(t, "eth0")
	got, ok, err := s.kernel(t).Egress(t.Context(), address("192.0.2.254"), "")
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	equal(t, got, peering.Egress{Interface: "eth0", Addresses: addrs("192.0.2.1", "2001:db8::1", "192.0.2.8")})
}

func TestNextHopsHaveAFixedOrder(t *testing.T) {
	h := func(prefix string, flags uint32, lasting bool) holding {
		return holding{prefix: netip.MustParsePrefix(prefix), flags: flags, lasting: lasting}
	}
	all := []holding{
		h("2001:db8::3/64", unix.IFA_F_TEMPORARY, false),
		h("2001:db8::4/64", unix.IFA_F_TENTATIVE, true),
		h("2001:db8::2/64", 0, false),
		h("2001:db8::9/128", 0, true),
		h("2001:db8::8/64", 0, true),
		h("192.0.2.1/24", unix.IFA_F_SECONDARY, true),
		h("192.0.2.2/24", 0, true),
		h("192.0.2.3/32", 0, true),
		h("192.0.2.3/24", unix.IFA_F_SECONDARY, true),
		h("fe80::1/64", 0, true),
		h("::ffff:192.0.2.1/128", 0, true),
	}
	equal(t, nextHops(all, address("192.0.2.3")), addrs("192.0.2.3", "192.0.2.2", "2001:db8::8", "2001:db8::2", "2001:db8::9", "192.0.2.1"))
}

// service adds the address of a Service to a link.
func (s space) service(t testing.TB, name, prefix string) {
	t.Helper()
	k := s.kernel(t)
	l, _, err := k.link(t.Context(), name)
	expect.NoError(t, err)
	p := netip.MustParsePrefix(prefix)
	body := make([]byte, unix.SizeofIfAddrmsg)
	body[0], body[1], body[2] = rtnetlink.Family(p.Addr()), uint8(p.Bits()), unix.IFA_F_NODAD
	native.PutUint32(body[4:], uint32(l.index))
	req := rtnetlink.NewRequest(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, body)
	req.Add(unix.IFA_LOCAL, p.Addr().AsSlice())
	req.Add(ifaProto, []byte{addr.Mark})
	expect.NoError(t, k.route.Do(t.Context(), req))
}

// drain discards the signals of earlier changes until none arrives for a while.
func drain(changed <-chan struct{}) {
	for {
		select {
		case <-changed:
		case <-time.After(200 * time.Millisecond):
			return
		}
	}
}

func signaled(changed <-chan struct{}, within time.Duration) bool {
	select {
	case <-changed:
		return true
	case <-time.After(within):
		return false
	}
}

func TestChangesAreSignalled(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.IP(dummy + `
		link add eth0 type bridge
		link set eth0 up
		addr add 192.0.2.1/24 dev eth0
		addr add fd00::1/64 dev eth0 nodad`)
	s.served(t, "eth0", "fd00::1", "fe80:")
	s.served(t, "kube-lb0", "fe80:")
	k := s.kernel(t)
	var changed <-chan struct{}
	s.Do(func() {
		var err error
		if changed, err = k.Changes(t.Context()); err != nil {
			t.Error(err)
		}
	})
	drain(changed)
	s.service(t, "kube-lb0", "198.51.100.1/32")
	s.service(t, "kube-lb0", "2001:db8:f::1/128")
	if signaled(changed, 200*time.Millisecond) {
		t.Error("the address of a Service sends a signal")
	}
	for _, tt := range []struct {
		command string
		want    bool
	}{
		{"route add 203.0.113.0/24 via 192.0.2.254", true},
		{"-6 route add 2001:db8::/64 via fd00::fe", true},
		{"route del 203.0.113.0/24", true},
		{"link add eth1 type bridge", true},
		{"link set eth1 up", true},
		{"addr add 192.0.2.7/24 dev eth0", true},
		{"addr del fd00::1/64 dev eth0", true},
		{"link del eth0", true},
	} {
		drain(changed)
		s.IP(tt.command)
		within := 200 * time.Millisecond
		if tt.want {
			within = bgptest.Patience
		}
		if got := signaled(changed, within); got != tt.want {
			t.Errorf("ip %s: a signal arrives: %v, want %v", tt.command, got, tt.want)
		}
	}
}

func TestManyChangesSendFewSignals(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.IP(dummy)
	s.served(t, "kube-lb0", "fe80:")
	k := s.kernel(t)
	var changed <-chan struct{}
	s.Do(func() { changed, _ = k.Changes(t.Context()) })
	drain(changed)
	var signals atomic.Int32
	go func() {
		for range changed {
			signals.Add(1)
		}
	}()
	start := time.Now()
	s.batch(t, lines("addr add %s dev kube-lb0", block("198.18.0.1", 1000)))
	most := 3 + int(time.Since(start)/signalPause)
	eventually(t, "a signal", func() bool { return signals.Load() > 0 })
	time.Sleep(time.Second) // time for superfluous signals
	if n := int(signals.Load()); n > most {
		t.Errorf("%d signals, want 1 to %d", n, most)
	}
}
