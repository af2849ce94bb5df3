package routing

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/rtnetlink"
	"purelb.io/purelb/internal/testing/expect"
)

const bgp = 186

// ourMark is how iproute2 prints the mark of a learned route.
const ourMark = "features 0x4"

// router returns a space with two links. The neighbors on them need not exist.
func router(t testing.TB) space {
	t.Helper()
	s := newSpace(t)
	s.IP(`link add eth0 type bridge
		link set eth0 address 02:00:00:00:00:01 up
		link add eth1 type bridge
		link set eth1 address 02:00:00:00:00:02 up
		addr add 192.0.2.1/24 dev eth0
		addr add 2001:db8::1/64 dev eth0 nodad
		addr add 192.0.3.1/24 dev eth1
		addr add 2001:db8:1::1/64 dev eth1 nodad`)
	return s
}

// learned returns a route of the main table.
func learned(prefix string, nextHops ...string) Route {
	return Route{
		Prefix: netip.MustParsePrefix(prefix), Protocol: bgp, Table: unix.RT_TABLE_MAIN, Metric: 20, NextHops: addrs(nextHops...), ValidateNextHop: true,
	}
}

func with(r Route, change func(*Route)) Route {
	change(&r)
	return r
}

// inTable puts a route into another table.
func inTable(table uint32, r Route) Route {
	return with(r, func(r *Route) { r.Table = table })
}

// table returns the routes of a table in the format of iproute2, one per line, without the
// routes that the kernel added, and without our mark.
func (s space) table(t testing.TB, table string) string {
	t.Helper()
	var out []string
	for _, family := range []string{"-4", "-6"} {
		all, err := s.Run("ip", family, "-N", "-o", "route", "show", "table", table)
		if err != nil && !strings.Contains(all, "FIB table does not exist") {
			t.Fatal(all)
		}
		for line := range strings.Lines(all) {
			if err != nil {
				break
			}
			if !strings.Contains(line, "proto 2 ") { // RTPROT_KERNEL
				line = strings.ReplaceAll(line, "\\", "")
				line = strings.ReplaceAll(line, "pref medium", "")
				line = strings.ReplaceAll(line, "linkdown", "")
				line = strings.ReplaceAll(line, ourMark, "")
				out = append(out, strings.Join(strings.Fields(line), " ")+"\n")
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, "")
}

// program programs wanted, and returns the routes that are not there as wanted.
func program(t testing.TB, k *Kernel, wanted ...Route) []peering.Exported {
	t.Helper()
	exported, err := k.Program(t.Context(), wanted, false)
	expect.NoError(t, err)
	return unlike(exported)
}

// unlike returns the routes that are not in the kernel as wanted.
func unlike(exported []peering.Exported) []peering.Exported {
	return slices.DeleteFunc(exported, func(e peering.Exported) bool { return e.Reason == "" })
}

func show(problems []peering.Exported) string {
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&b, "%s table %d metric %d installed %v: %s\n", p.Prefix, p.Table, p.Metric, p.Installed, p.Reason)
	}
	return b.String()
}

func TestLearnedRoutesAreInTheKernel(t *testing.T) {
	t.Parallel()
	s := router(t)
	k := s.kernel(t)
	for _, scene := range []struct {
		name           string
		wanted         []Route
		main, table100 string
	}{
		{"one next hop", []Route{learned("198.51.100.0/24", "192.0.2.254"), learned("2001:db8:f::/64", "2001:db8::fe")},
			"198.51.100.0/24 via 192.0.2.254 dev eth0 proto 186 metric 20\n" +
				"2001:db8:f::/64 via 2001:db8::fe dev eth0 proto 186 metric 20\n", ""},
		{"several next hops", []Route{learned("198.51.100.0/24", "192.0.3.254", "192.0.2.254"), learned("2001:db8:f::/64", "2001:db8:1::fe", "2001:db8::fe")},
			"198.51.100.0/24 proto 186 metric 20 nexthop via 192.0.2.254 dev eth0 weight 1 nexthop via 192.0.3.254 dev eth1 weight 1\n" +
				"2001:db8:f::/64 proto 186 metric 20 nexthop via 2001:db8::fe dev eth0 weight 1 nexthop via 2001:db8:1::fe dev eth1 weight 1\n", ""},
		{"fewer again", []Route{learned("198.51.100.0/24", "192.0.3.254"), learned("2001:db8:f::/64", "2001:db8:1::fe")},
			"198.51.100.0/24 via 192.0.3.254 dev eth1 proto 186 metric 20\n" +
				"2001:db8:f::/64 via 2001:db8:1::fe dev eth1 proto 186 metric 20\n", ""},
		{"IPv4 by IPv6", []Route{learned("198.51.100.0/24", "2001:db8::fe"), learned("198.51.101.0/24", "fe80::fe%eth0", "fe80::fe%eth1")},
			"198.51.100.0/24 via inet6 2001:db8::fe dev eth0 proto 186 metric 20\n" +
				"198.51.101.0/24 proto 186 metric 20 nexthop via inet6 fe80::fe dev eth0 weight 1 nexthop via inet6 fe80::fe dev eth1 weight 1\n", ""},
		{"next hops of both families", []Route{learned("198.51.100.0/24", "2001:db8::fe", "192.0.2.254"), learned("2001:db8:f::/64", "fe80::fe%eth0")},
			"198.51.100.0/24 proto 186 metric 20 nexthop via 192.0.2.254 dev eth0 weight 1 nexthop via inet6 2001:db8::fe dev eth0 weight 1\n" +
				"2001:db8:f::/64 via fe80::fe dev eth0 proto 186 metric 20\n", ""},
		{"another metric and another table", []Route{
			with(learned("198.51.100.0/24", "192.0.2.254"), func(r *Route) { r.Metric = 30 }),
			with(learned("2001:db8:f::/64", "2001:db8::fe"), func(r *Route) { r.Metric = 30 }),
			inTable(100, learned("198.51.100.0/24", "192.0.2.254")),
			inTable(100, learned("2001:db8:f::/64", "2001:db8::fe")),
		},
			"198.51.100.0/24 via 192.0.2.254 dev eth0 proto 186 metric 30\n2001:db8:f::/64 via 2001:db8::fe dev eth0 proto 186 metric 30\n",
			"198.51.100.0/24 via 192.0.2.254 dev eth0 proto 186 metric 20\n2001:db8:f::/64 via 2001:db8::fe dev eth0 proto 186 metric 20\n"},
		{"a table beyond 255", []Route{
			inTable(100, learned("198.51.100.0/24", "192.0.2.254", "192.0.3.254")),
			inTable(100_000, learned("198.51.100.0/24", "192.0.2.254")),
		},
			"", "198.51.100.0/24 proto 186 metric 20 nexthop via 192.0.2.254 dev eth0 weight 1 nexthop via 192.0.3.254 dev eth1 weight 1\n"},
		{"no routes", nil, "", ""},
	} {
		if problems := program(t, k, scene.wanted...); len(problems) > 0 {
			t.Fatalf("%s: %s", scene.name, show(problems))
		}
		equal(t, s.table(t, "254"), scene.main)
		equal(t, s.table(t, "100"), scene.table100)
		if t.Failed() {
			t.Fatal(scene.name)
		}
	}
}

func TestOnlyDifferencesAreWritten(t *testing.T) {
	t.Parallel()
	s := router(t)
	k := s.kernel(t)
	wire := s.count(t, k)
	wanted := []Route{
		learned("198.51.100.0/24", "192.0.3.254", "192.0.2.254"), learned("198.51.101.0/24", "fe80::fe%eth0"),
		learned("2001:db8:f::/64", "2001:db8:1::fe", "2001:db8::fe"), learned("2001:db8:e::/64", "fe80::fe%eth1"),
		with(learned("2001:db8:d::/64", "2001:db8::fe"), func(r *Route) { r.Metric = 1024 }),
		inTable(1000, learned("198.51.102.0/24", "192.0.2.254")),
	}
	for _, writes := range []int{len(wanted), 0, 0} {
		wire.writes = 0
		if problems := program(t, k, wanted...); len(problems) > 0 {
			t.Fatal(show(problems))
		}
		if wire.writes != writes {
			t.Errorf("%d writes, want %d", wire.writes, writes)
		}
	}
	wanted[0].NextHops = wanted[0].NextHops[:1]
	wire.writes = 0
	program(t, k, wanted...)
	if wire.writes != 1 {
		t.Errorf("%d writes for one change, want 1", wire.writes)
	}
}

// counted is a transport that counts the change requests to the kernel. If interrupted is
// set, it reports dumps as interrupted.
type counted struct {
	rtnetlink.Transport
	writes      int
	interrupted bool
}

// count makes k use a counted transport.
func (s space) count(t testing.TB, k *Kernel) *counted {
	t.Helper()
	c := &counted{}
	s.Do(func() {
		var err error
		if c.Transport, err = rtnetlink.Open(unix.NETLINK_ROUTE); err != nil {
			t.Fatal(err)
		}
	})
	if err := k.route.Close(); err != nil {
		t.Error(err)
	}
	k.route = rtnetlink.NewConn(c)
	return c
}

func (c *counted) Send(msg []byte) error {
	for rest := msg; len(rest) > 0; {
		h, _, after, err := rtnetlink.Cut(rest)
		if err != nil {
			return err
		}
		if h.Kind == unix.RTM_NEWROUTE || h.Kind == unix.RTM_DELROUTE {
			c.writes++
		}
		rest = after
	}
	return c.Transport.Send(msg)
}

func (c *counted) Receive(buf []byte) (int, error) {
	n, err := c.Transport.Receive(buf)
	for rest := buf[:n]; c.interrupted && len(rest) > 0; {
		h, _, after, err := rtnetlink.Cut(rest)
		if err != nil {
			return n, err
		}
		if h.Flags&unix.NLM_F_MULTI != 0 {
			native.PutUint16(rest[6:], h.Flags|unix.NLM_F_DUMP_INTR)
		}
		rest = after
	}
	return n, err
}

func TestAnInterruptedDumpChangesNothing(t *testing.T) {
	t.Parallel()
	s := router(t)
	k := s.kernel(t)
	program(t, k, learned("198.51.100.0/24", "192.0.2.254"))
	before := s.table(t, "254")
	wire := s.count(t, k)
	wire.interrupted = true
	if _, err := k.Program(t.Context(), []Route{learned("198.51.101.0/24", "192.0.2.254")}, false); !errors.Is(err, rtnetlink.ErrInterrupted) {
		t.Errorf("Program returns %v, want an error about the interrupted dump", err)
	}
	equal(t, s.table(t, "254"), before)
	wire.interrupted = false
	program(t, k)
	equal(t, s.table(t, "254"), "")
}

func TestARouteThatCannotBeReplacedStays(t *testing.T) {
	t.Parallel()
	s := router(t)
	k := s.kernel(t)
	program(t, k, learned("198.51.100.0/24", "192.0.2.254"))
	before := s.table(t, "254")
	unchecked := func(r *Route) { r.ValidateNextHop = false }
	problems := program(t, k,
		with(learned("198.51.100.0/24", "100.64.0.1"), unchecked), with(learned("198.51.101.0/24", "100.64.0.1"), unchecked))
	equal(t, show(problems), "198.51.100.0/24 table 254 metric 20 installed false: replace route: Nexthop has invalid gateway (network is unreachable)\n"+
		"198.51.101.0/24 table 254 metric 20 installed false: add route: Nexthop has invalid gateway (network is unreachable)\n")
	equal(t, s.table(t, "254"), before)
}

func TestEachImpossibleRouteIsAProblem(t *testing.T) {
	t.Parallel()
	s := router(t)
	s.IP(`link add eth2 type bridge
		route add 10.1.0.0/16 via 192.0.2.254
		route add unreachable 10.3.0.0/16`)
	unchecked := func(r *Route) { r.ValidateNextHop = false }
	k := s.kernel(t)
	ours := []Route{learned("10.2.0.0/16", "192.0.2.254"), learned("2001:db8:2::/64", "2001:db8::fe")}
	program(t, k, ours...)
	problems := program(t, k, append(ours,
		learned("198.51.100.0/32", "192.0.2.254"),
		learned("198.51.100.1/32", "100.64.0.1"),
		learned("198.51.100.2/32", "100.64.0.1", "192.0.2.254"),
		learned("198.51.100.3/32", "10.1.0.1"),
		learned("198.51.100.4/32", "10.2.0.1"),
		learned("198.51.100.5/32", "10.3.0.1"),
		learned("198.51.100.6/32"),
		learned("198.51.100.7/32", "192.0.2.1"),
		learned("198.51.100.8/32", "fe80::fe"),
		learned("198.51.100.9/32", "fe80::fe%eth2"),
		learned("198.51.100.10/32", "fe80::fe%eth9"),
		learned("198.51.100.11/32", "0.0.0.0"),
		with(learned("198.51.100.12/32", "100.64.0.1"), unchecked),
		with(learned("198.51.100.13/32", "192.0.2.254"), unchecked),
		with(learned("198.51.100.14/32", "192.0.2.254"), func(r *Route) { r.Table = 255 }),
		learned("2001:db8:f::1/128", "192.0.2.254"),
		learned("2001:db8:f::2/128", "::ffff:192.0.2.254"),
		learned("2001:db8:f::3/128", "2001:db8:f::3"),
		learned("2001:db8:f::4/128", "2001:db8::fe"),
		learned("2001:db8:f::5/128", "2001:db8:2::1"),
	)...)
	equal(t, show(problems), `198.51.100.1/32 table 254 metric 20 installed false: next hop unreachable: 100.64.0.1
198.51.100.2/32 table 254 metric 20 installed true: next hop unreachable: 100.64.0.1
198.51.100.4/32 table 254 metric 20 installed false: next hop unreachable: 10.2.0.1
198.51.100.5/32 table 254 metric 20 installed false: next hop unreachable: 10.3.0.1
198.51.100.6/32 table 254 metric 20 installed false: no next hop
198.51.100.7/32 table 254 metric 20 installed false: next hop 192.0.2.1 is this node
198.51.100.8/32 table 254 metric 20 installed false: next hop fe80::fe has no interface
198.51.100.9/32 table 254 metric 20 installed false: next hop unreachable: fe80::fe%eth2: the interface is down or gone
198.51.100.10/32 table 254 metric 20 installed false: next hop unreachable: fe80::fe%eth9: the interface is down or gone
198.51.100.11/32 table 254 metric 20 installed false: next hop 0.0.0.0 is not the address of a neighbor
198.51.100.12/32 table 254 metric 20 installed false: add route: Nexthop has invalid gateway (network is unreachable)
198.51.100.14/32 table 255 metric 20 installed false: the local table is the kernel's
2001:db8:f::1/128 table 254 metric 20 installed false: next hop 192.0.2.254: an IPv6 route cannot have an IPv4 next hop
2001:db8:f::2/128 table 254 metric 20 installed false: next hop ::ffff:192.0.2.254 is not the address of a neighbor
2001:db8:f::3/128 table 254 metric 20 installed false: next hop unreachable: 2001:db8:f::3
2001:db8:f::5/128 table 254 metric 20 installed false: next hop unreachable: 2001:db8:2::1
`)
	equal(t, s.table(t, "254"), `10.1.0.0/16 via 192.0.2.254 dev eth0
10.2.0.0/16 via 192.0.2.254 dev eth0 proto 186 metric 20
198.51.100.0 via 192.0.2.254 dev eth0 proto 186 metric 20
198.51.100.13 via 192.0.2.254 dev eth0 proto 186 metric 20
198.51.100.2 via 192.0.2.254 dev eth0 proto 186 metric 20
198.51.100.3 via 192.0.2.254 dev eth0 proto 186 metric 20
2001:db8:2::/64 via 2001:db8::fe dev eth0 proto 186 metric 20
2001:db8:f::4 via 2001:db8::fe dev eth0 proto 186 metric 20
7 10.3.0.0/16
`) // RTN_UNREACHABLE
}

func TestRoutesThatTheKernelDroppedAreAddedAgain(t *testing.T) {
	t.Parallel()
	s := router(t)
	k := s.kernel(t)
	wanted := []Route{learned("198.51.100.0/24", "192.0.2.254", "192.0.3.254"), learned("198.51.101.0/24", "192.0.3.254")}
	program(t, k, wanted...)
	s.IP("link set eth1 down")
	problems := program(t, k, wanted...)
	equal(t, len(problems), 2)
	equal(t, s.table(t, "254"), "198.51.100.0/24 via 192.0.2.254 dev eth0 proto 186 metric 20\n")
	s.IP("link set eth1 up")
	if problems := program(t, k, wanted...); len(problems) > 0 {
		t.Error(show(problems))
	}
	equal(t, strings.Count(s.table(t, "254"), "192.0.3.254"), 2)
}
