package routing

import (
	"context"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/rtnetlink"
	"purelb.io/purelb/internal/testing/expect"
)

// dummy adds a link like kube-lb0. It is a bridge without ports: it needs no duplicate address
// detection and no optional kernel module.
const dummy = `link add kube-lb0 type bridge
	link set kube-lb0 up`

func TestAddressesOfServicesAreToldApart(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.IP(dummy)
	l := s.listen(t, s.kernel(t), "kube-lb0")
	s.service(t, "kube-lb0", "192.0.2.1/32")
	s.IP("addr add 192.0.2.2/32 dev kube-lb0")
	l.expect(t, "192.0.2.1/32 kube-lb0 service, 192.0.2.2/32 kube-lb0")
	s.IP("addr del 192.0.2.1/32 dev kube-lb0\naddr add 192.0.2.1/32 dev kube-lb0")
	l.expect(t, "192.0.2.1/32 kube-lb0, 192.0.2.2/32 kube-lb0")
}

func TestAddressChangesAreImported(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	k := s.kernel(t)
	l := s.listen(t, k, "kube-lb0", "svc*")
	if got := l.text(); got != "" {
		t.Fatalf("%q is imported before there are addresses", got)
	}
	for _, scene := range []struct{ name, script, want string }{
		{"an interface without addresses", dummy, ""},
		{"host addresses", `addr add 192.0.2.1/32 dev kube-lb0
			addr add 2001:db8::1/128 dev kube-lb0 nodad`,
			"192.0.2.1/32 kube-lb0, 2001:db8::1/128 kube-lb0"},
		{"an address keeps its prefix length", "addr add 198.51.100.9/24 dev kube-lb0",
			"192.0.2.1/32 kube-lb0, 198.51.100.9/24 kube-lb0, 2001:db8::1/128 kube-lb0"},
		{"addresses with the scope host or link are not imported", `addr add 169.254.7.7/16 dev kube-lb0
			addr add 127.0.0.7/8 dev kube-lb0
			addr add fe80::7/64 dev kube-lb0 nodad
			addr del 198.51.100.9/24 dev kube-lb0`,
			"192.0.2.1/32 kube-lb0, 2001:db8::1/128 kube-lb0"},
		{"other interfaces are not imported", `link add eth0 type ifb
			link set eth0 up
			addr add 203.0.113.1/24 dev eth0
			addr add 192.0.2.2/32 dev kube-lb0`,
			"192.0.2.1/32 kube-lb0, 192.0.2.2/32 kube-lb0, 2001:db8::1/128 kube-lb0"},
		{"a link is down", "link set kube-lb0 down", ""},
		{"a link is up again with the addresses that it kept", "link set kube-lb0 up",
			"192.0.2.1/32 kube-lb0, 192.0.2.2/32 kube-lb0"},
		{"a link keeps IPv6 addresses", `addr add 2001:db8::2/128 dev kube-lb0 nodad
			addr add 2001:db8::3/128 dev kube-lb0`,
			"192.0.2.1/32 kube-lb0, 192.0.2.2/32 kube-lb0, 2001:db8::2/128 kube-lb0, 2001:db8::3/128 kube-lb0"},
		{"the link is down with IPv6 addresses", "link set kube-lb0 down", ""},
		{"the link is up again with IPv6 addresses", "link set kube-lb0 up",
			"192.0.2.1/32 kube-lb0, 192.0.2.2/32 kube-lb0, 2001:db8::2/128 kube-lb0, 2001:db8::3/128 kube-lb0"},
		{"a name without a pattern", `link set kube-lb0 down
			link set kube-lb0 name other
			link set other up`, ""},
		{"a name that matches a pattern", `link set other down
			link set other name svc7
			link set svc7 up`, "192.0.2.1/32 svc7, 192.0.2.2/32 svc7, 2001:db8::2/128 svc7, 2001:db8::3/128 svc7"},
		{"a link is deleted", "link del svc7", ""},
		{"a new link with the first name", dummy + `
			addr add 192.0.2.1/32 dev kube-lb0`, "192.0.2.1/32 kube-lb0"},
		{"several interfaces", `link add svc1 type bridge
			addr add 192.0.2.1/32 dev svc1
			link set svc1 up`, "192.0.2.1/32 kube-lb0, 192.0.2.1/32 svc1"},
		{"an address is removed from one of two links", "addr del 192.0.2.1/32 dev kube-lb0", "192.0.2.1/32 svc1"},
	} {
		s.IP(scene.script)
		if scene.name == "a link keeps IPv6 addresses" {
			s.Sysctl("net.ipv6.conf.kube-lb0.keep_addr_on_down", "1")
		}
		l.expect(t, scene.want)
		if t.Failed() {
			t.Fatal(scene.name)
		}
	}
}

func TestQuickLinkChangesLeaveTheRightAddresses(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	l := s.listen(t, s.kernel(t), "kube-lb0")
	var script []string
	for range 20 {
		script = append(script, "link add kube-lb0 type bridge", "link set kube-lb0 up",
			"addr add 192.0.2.1/32 dev kube-lb0", "addr add 2001:db8::1/128 dev kube-lb0 nodad",
			"link set kube-lb0 down", "link set kube-lb0 name old", "link set old up",
			"link set old down", "link set old name kube-lb0", "link set kube-lb0 up", "link del kube-lb0")
	}
	s.batch(t, append(script, "link add kube-lb0 type bridge", "link set kube-lb0 up", "addr add 192.0.2.9/32 dev kube-lb0"))
	l.expect(t, "192.0.2.9/32 kube-lb0")
}

func TestTheFirstCallIsTheCompleteList(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.IP(dummy + `
		addr add 192.0.2.1/32 dev kube-lb0
		addr add 192.0.2.2/32 dev kube-lb0`)
	l := s.listen(t, s.kernel(t), "kube-*")
	if got, want := l.text(), "192.0.2.1/32 kube-lb0, 192.0.2.2/32 kube-lb0"; got != want || l.count() != 1 {
		t.Errorf("after %d calls, %q is imported, want %q after one call", l.count(), got, want)
	}
}

func TestADuplicateAddressIsNotImported(t *testing.T) {
	t.Parallel()
	s, other := newSpace(t), newSpace(t)
	s.connect(t, other, "eth0", "eth0")
	other.IP("addr add 2001:db8::1/64 dev eth0 nodad")
	other.served(t, "eth0", "2001:db8::1")
	l := s.listen(t, s.kernel(t), "eth0")
	s.IP("addr add 2001:db8::1/64 dev eth0")
	eventually(t, "the kernel finds the duplicate", func() bool {
		return strings.Contains(s.IP("-6 addr show dev eth0"), "dadfailed")
	})
	s.IP("addr add 2001:db8::2/64 dev eth0")
	l.expect(t, "2001:db8::2/64 eth0")
}

func TestTenThousandAddressesAreImportedOnce(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.IP(dummy)
	l := s.listen(t, s.kernel(t), "kube-lb0")
	v4, v6 := block("198.18.0.1", 8000), block("2001:db8::1", 2000)
	s.batch(t, lines("addr add %s dev kube-lb0", v4))
	s.batch(t, lines("addr add %s dev kube-lb0 nodad", v6))
	eventually(t, "10,000 addresses are imported", func() bool { return l.size() == 10_000 })
	s.batch(t, lines("addr del %s dev kube-lb0", v4))
	s.batch(t, lines("addr del %s dev kube-lb0", v6))
	l.expect(t, "")
}

func TestImportRecoversDroppedMessages(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.IP(dummy + `
		addr add 192.0.2.1/32 dev kube-lb0`)
	k := s.kernel(t)
	k.buffer = 1 // the kernel raises it to its minimum
	l := s.listen(t, k, "kube-lb0")

	l.gate.Lock() // Import waits in change, so it reads no messages
	s.IP("addr add 192.0.2.2/32 dev kube-lb0")
	s.batch(t, lines("addr add %s dev kube-lb0", block("198.18.0.1", 1000)))
	l.gate.Unlock()
	eventually(t, "all addresses are imported", func() bool { return l.size() == 1002 })

	l.gate.Lock()
	s.IP("addr del 192.0.2.2/32 dev kube-lb0")
	s.batch(t, lines("addr del %s dev kube-lb0", block("198.18.0.1", 1000)))
	l.gate.Unlock()
	l.expect(t, "192.0.2.1/32 kube-lb0")
}

func TestAddressesAreListedAgainPeriodically(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.IP(dummy)
	k := s.kernel(t)
	k.every = 20 * time.Millisecond
	l := newListener()
	s.begin(t, func(ctx context.Context) {
		silent, err := rtnetlink.Subscribe(0) // this subscription gets no messages
		if err != nil {
			t.Error(err)
			return
		}
		defer silent.Close()
		defer context.AfterFunc(ctx, silent.Close)()
		if err := ended(ctx, k.follow(ctx, silent, newView([]string{"kube-lb0"}), l.change)); err != nil {
			t.Error(err)
		}
	})
	s.IP("addr add 192.0.2.1/32 dev kube-lb0")
	l.expect(t, "192.0.2.1/32 kube-lb0")
	s.IP("addr del 192.0.2.1/32 dev kube-lb0")
	l.expect(t, "")
}

func TestInterfacesShowTheirState(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.IP(dummy + `
		link add svc1 type bridge
		link add svc2 type bridge`)
	got, err := s.kernel(t).Interfaces(t.Context(), []string{"svc?", "kube-lb0", "kube*", "eth*", "eno1"})
	expect.NoError(t, err)
	equal(t, got, []peering.Interface{
		{Name: "eno1"}, {Name: "eth*"}, {Name: "kube-lb0", Exists: true, Up: true},
		{Name: "svc1", Exists: true}, {Name: "svc2", Exists: true},
	})
}
