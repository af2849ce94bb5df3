package routing

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRoutesOfACrashedProcessAreRemoved(t *testing.T) {
	t.Parallel()
	s := router(t)
	program(t, s.kernel(t), nil, 0, 100) // the process that crashed
	s.IP(`route add 198.51.100.0/24 via 192.0.2.254 proto 186 metric 20
		route add 198.51.101.0/24 via 192.0.2.254 proto 186 metric 20
		route add blackhole 198.51.102.0/24 proto 186
		route add 198.51.101.0/24 via 192.0.2.254 proto 186 metric 30
		route append 198.51.101.0/24 via 192.0.2.253 proto 186 metric 30
		-6 route add 2001:db8:f::/64 proto 186 metric 20 nexthop via 2001:db8::fe nexthop via 2001:db8:1::fe
		route add 198.51.103.0/24 via 192.0.2.254 proto 186 table 100
		route add 198.51.104.0/24 via 192.0.2.254 proto 186 table 200`)
	k := s.kernel(t)
	if problems := program(t, k, []Route{
		learned("198.51.100.0/24", "192.0.2.254"),
		with(learned("198.51.101.0/24", "192.0.3.254"), func(r *Route) { r.Metric = 30 }),
	}, 100); len(problems) > 0 {
		t.Error(show(problems))
	}
	equal(t, s.table(t, "254"), "198.51.100.0/24 via 192.0.2.254 dev eth0 proto 186 metric 20\n"+
		"198.51.101.0/24 via 192.0.3.254 dev eth1 proto 186 metric 30\n")
	equal(t, s.table(t, "100"), "")
	equal(t, s.table(t, "200"), "198.51.104.0/24 via 192.0.2.254 dev eth0 proto 186\n")
}

func TestForeignRoutesAreNotChanged(t *testing.T) {
	t.Parallel()
	s := router(t)
	s.IP(`route add default via 192.0.2.254 proto 186
		-6 route add default via 2001:db8::fe proto 186 metric 20
		route add 198.51.100.0/24 via 192.0.2.253 metric 20
		-6 route add 2001:db8:f::/64 via 2001:db8::fd metric 20
		route add 198.51.101.0/24 via 192.0.2.253 metric 10
		route add 203.0.113.0/24 via 192.0.2.253 proto 4 metric 20
		-6 route add 2001:db8:e::/64 via 2001:db8::fd proto 12`)
	theirs := s.table(t, "254")
	k := s.kernel(t)
	problems := program(t, k, []Route{
		learned("198.51.100.0/24", "192.0.2.254"), learned("2001:db8:f::/64", "2001:db8::fe"), // other programs have routes there
		learned("0.0.0.0/0", "192.0.3.254"), learned("::/0", "2001:db8:1::fe"),
	})
	equal(t, show(problems), "0.0.0.0/0 table 254 metric 20 installed false: "+ErrDefaultRoute.Error()+"\n"+
		"198.51.100.0/24 table 254 metric 20 installed false: "+ErrOccupied.Error()+"\n"+
		"::/0 table 254 metric 20 installed false: "+ErrDefaultRoute.Error()+"\n"+
		"2001:db8:f::/64 table 254 metric 20 installed false: "+ErrOccupied.Error()+"\n")
	equal(t, s.table(t, "254"), theirs)

	program(t, k, []Route{learned("198.51.101.0/24", "192.0.2.254")}) // beside the route of another program
	equal(t, strings.Count(s.table(t, "254"), "198.51.101.0/24"), 2)
	program(t, k, nil, 0)
	equal(t, s.table(t, "254"), theirs)
}

func TestARouteThatAnotherProgramReplacedStays(t *testing.T) {
	t.Parallel()
	s := router(t)
	k := s.kernel(t)
	targets, _, err := k.targets(t.Context(), []Route{
		learned("198.51.100.0/24", "192.0.2.254"), learned("2001:db8:f::/64", "2001:db8::fe"),
	}, withDefault)
	if err != nil {
		t.Fatal(err)
	}
	p := difference(targets, nil, k.claims.has)
	s.IP(`route add 198.51.100.0/24 via 192.0.2.253 metric 20
		-6 route add 2001:db8:f::/64 via 2001:db8::fd metric 20`)
	theirs := s.table(t, "254")
	for _, problem := range k.carryOut(t.Context(), p) {
		if !errors.Is(problem.Err, ErrOccupied) {
			t.Error(problem)
		}
	}
	equal(t, s.table(t, "254"), theirs)
}

func TestADefaultRouteIsAddedAndRemovedIfAllowed(t *testing.T) {
	t.Parallel()
	s := router(t)
	k := s.kernel(t)
	if problems := programIn(t, k, withDefault,
		learned("0.0.0.0/0", "192.0.2.254"), learned("::/0", "2001:db8::fe", "2001:db8:1::fe")); len(problems) > 0 {
		t.Error(show(problems))
	}
	equal(t, s.table(t, "254"), "default proto 186 metric 20 nexthop via 2001:db8::fe dev eth0 weight 1 nexthop via 2001:db8:1::fe dev eth1 weight 1\n"+
		"default via 192.0.2.254 dev eth0 proto 186 metric 20\n")
	programIn(t, k, withDefault)
	equal(t, s.table(t, "254"), "")
}

func TestAnOldDefaultRouteOfOursIsRemoved(t *testing.T) {
	t.Parallel()
	for name, wanted := range map[string][]Route{
		"wanted at first": {learned("0.0.0.0/0", "192.0.2.254"), learned("::/0", "2001:db8::fe")},
		"not wanted":      nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := router(t)
			programIn(t, s.kernel(t), withDefault, learned("0.0.0.0/0", "192.0.2.254"), learned("::/0", "2001:db8::fe"))
			s.IP(`route add default via 192.0.2.253 proto 186 metric 30
				-6 route add default via 2001:db8::fd proto 186 metric 30`)
			next := s.kernel(t)
			if problems := programIn(t, next, withDefault, wanted...); len(problems) > 0 {
				t.Error(show(problems))
			}
			programIn(t, next, withDefault)
			equal(t, s.table(t, "254"), "default via 192.0.2.253 dev eth0 proto 186 metric 30\n"+
				"default via 2001:db8::fd dev eth0 proto 186 metric 30\n")
		})
	}
}

func TestANewProtocolReplacesRoutesInPlace(t *testing.T) {
	t.Parallel()
	s := router(t)
	k := s.kernel(t)
	wanted := []Route{
		learned("198.51.100.0/24", "192.0.2.254"), learned("198.51.101.0/24", "192.0.2.254", "192.0.3.254"), learned("0.0.0.0/0", "192.0.2.254"),
		learned("2001:db8:f::/64", "2001:db8::fe"), learned("2001:db8:e::/64", "2001:db8::fe", "2001:db8:1::fe"), learned("::/0", "2001:db8::fe"),
	}
	programIn(t, k, withDefault, append(wanted, learned("198.51.102.0/24", "192.0.2.254"))...)
	s.IP("route add 198.51.103.0/24 via 192.0.2.253 proto 201")
	before := s.table(t, "254")
	for i := range wanted {
		wanted[i].Protocol = 200
	}
	now := Realm{Protocol: 200, Default: true, DefaultMetric: 20}
	if _, err := k.Program(t.Context(), Wanted{Own: append(withDefault, now), Keep: true}); err != nil { // marks both realms
		t.Fatal(err)
	}
	wire := s.count(t, k)
	if problems := programIn(t, k, append(withDefault, now), wanted...); len(problems) > 0 {
		t.Error(show(problems))
	}
	equal(t, wire.writes, len(wanted)+1) // one write for each route
	after := strings.Replace(before, "198.51.102.0/24 via 192.0.2.254 dev eth0 proto 186 metric 20\n", "", 1)
	equal(t, s.table(t, "254"), strings.ReplaceAll(after, "proto 186", "proto 200"))
}

func TestAReservedProtocolIsRefused(t *testing.T) {
	t.Parallel()
	k := newSpace(t).kernel(t)
	for _, protocol := range []int{-1, 0, unix.RTPROT_KERNEL, unix.RTPROT_STATIC, 256} {
		if _, err := k.Program(t.Context(), Wanted{Own: []Realm{{Protocol: protocol}}}); err == nil {
			t.Errorf("protocol %d is not refused", protocol)
		}
	}
}
