package announce

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

func TestOnAKernelWithoutMarksOursAreToldByTheirMakeAndByTheServices(t *testing.T) {
	lasts := func(d time.Duration) func(*Address) {
		return func(a *Address) { a.Mark, a.Valid = 0, d }
	}
	local4, local6 := hasLocal("eth0", "10.0.0.5/24", lifetime), hasLocal("eth0", "fd00::50/64", lifetime)
	dhcp4, dhcp6 := hasLocal("eth0", "10.0.0.77/24", lifetime), hasLocal("eth0", "fd00::77/64", lifetime)
	for _, tt := range []struct {
		name  string
		is    Address
		given []twist
		want  bool
	}{
		{"local IPv4", with(local4, unmarked), nil, true},
		{"local IPv6", with(local6, unmarked), nil, true},
		{"local, though its pool was deleted", with(local4, unmarked), []twist{noGroups}, true},
		{"that of a Service which DHCP has given to the node, IPv4", with(local4, lasts(time.Hour)), nil, false},
		{"that of a Service which DHCP has given to the node, IPv6", with(local6, lasts(time.Hour)), nil, false},
		{"local, by a longer lifetime", with(local4, lasts(time.Hour)), []twist{func(s *Situation) { s.Agent.LocalAddress.Valid = time.Hour }}, true},
		{"local, from when lifetimes were longer", with(local4, lasts(time.Hour)), []twist{held("eth0", "10.0.0.5")}, true},
		{"local, with a prefix route", with(with(local4, unmarked), routed), []twist{routes}, true},
		{"local, with a prefix route, from another LBNodeAgent", with(with(local4, unmarked), routed), []twist{held("eth0", "10.0.0.5")}, true},
		{"that of a Service with a prefix route, if the LBNodeAgent asks for none", with(with(local4, unmarked), routed), nil, false},
		{"local, ageless", with(local4, lasts(ageless-time.Hour)), nil, true},
		{"ageless, but of no Service", with(dhcp4, lasts(ageless)), nil, false},
		{"that of a Service without an end, on the node's own interface", with(local4, lasts(Forever)), []twist{held("eth0", "10.0.0.5")}, false},
		{"in a pool, but of no Service, IPv4", with(dhcp4, lasts(time.Hour)), nil, false},
		{"in a pool, but of no Service, IPv6", with(dhcp6, lasts(time.Hour)), nil, false},
		{"that too if it is about to expire", with(dhcp4, unmarked), nil, false},
		{"of a Service that has just been deleted", with(dhcp4, unmarked), []twist{held("eth0", "10.0.0.77")}, true},
		{"of a Service that has just been deleted, on another link", with(dhcp4, unmarked), []twist{held("eth1", "10.0.0.77")}, false},
		{"about to expire, while not all is known", with(dhcp4, unmarked), []twist{incomplete}, true},
		{"not about to expire, while not all is known", with(dhcp4, lasts(time.Hour)), []twist{incomplete}, false},
		{"the node's own, while not all is known", hasNode("eth0", "10.0.0.1/24"), []twist{incomplete}, false},
		{"remote IPv4", hasNode("kube-lb0", "172.16.0.1/24"), nil, true},
		{"remote IPv6", hasNode("kube-lb0", "fd16::1/64"), nil, true},
		{"in no pool", hasNode("kube-lb0", "203.0.113.1/24"), nil, false},
		{"in no pool, of a Service whose group is gone", hasNode("kube-lb0", "203.0.113.7/32"), []twist{serveAs("default/far", from("gone"), "203.0.113.7")}, false},
		{"of a Service from a backend", hasNode("kube-lb0", "203.0.113.7/32"), []twist{backends, serveAs("default/far", from("plain, far"), "203.0.113.7")}, true},
		{"of a backend, but of another Service", hasNode("kube-lb0", "203.0.113.8/32"), []twist{backends, serveAs("default/far", from("far"), "203.0.113.7")}, false},
		{"of a backend, of a Service that has just been deleted", hasNode("kube-lb0", "203.0.113.7/32"), []twist{heldRemote("203.0.113.7")}, true},
		{"remote, from when the dummy interface had another name", hasNode("kube-lb0", "172.16.0.1/24"), []twist{heldRemote("172.16.0.1"), func(s *Situation) { s.Agent.Dummy = "lb9" }}, true},
		{"of a backend, on another link", hasNode("eth0", "203.0.113.7/32"), []twist{heldRemote("203.0.113.7")}, false},
		{"the node's own in a pool, IPv4", hasNode("eth0", "10.0.0.1/24"), nil, false},
		{"the node's own in a pool, IPv6", hasNode("eth0", "fd00::a/64"), nil, false},
	} {
		s := theSituation()
		s.Node.MarksSupported = false
		for _, change := range append([]twist{serve("10.0.0.5", "fd00::50")}, tt.given...) {
			change(&s)
		}
		if got := Adopt(s)(tt.is); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	if Adopt(theSituation()) != nil {
		t.Error("with marks there is nothing to guess")
	}
}

func TestHoldsWhatBelongsHereAndIsHere(t *testing.T) {
	one := netip.MustParseAddr
	decisions := []Decision{
		{IP: one("10.0.0.5"), Where: Local, Address: Address{Link: "eth0"}},
		{IP: one("172.16.0.1"), Where: Remote, Address: Address{Link: "kube-lb0"}},
		{IP: one("10.0.0.9"), Where: Nowhere},
	}
	for _, tt := range []struct {
		name         string
		has          []twist
		added, fails string
		want         string
	}{
		{"nothing is here", nil, "", "", "map[] map[]"},
		{"all were found", []twist{has(hasLocal("eth0", "10.0.0.5/24", lifetime), hasNode("kube-lb0", "172.16.0.1/32"))}, "", "", "map[10.0.0.5:eth0] map[]"},
		{"all were found, without marks", []twist{withoutMarks, has(hasLocal("eth0", "10.0.0.5/24", lifetime), hasNode("kube-lb0", "172.16.0.1/32"))}, "", "", "map[10.0.0.5:eth0] map[172.16.0.1:kube-lb0]"},
		{"a local one was added", nil, "10.0.0.5", "", "map[10.0.0.5:eth0] map[]"},
		{"a remote one was added, without marks", []twist{withoutMarks}, "172.16.0.1", "", "map[] map[172.16.0.1:kube-lb0]"},
		{"a local one failed", []twist{has(hasLocal("eth0", "10.0.0.5/24", lifetime))}, "", "10.0.0.5", "map[] map[]"},
		{"a local one is only on the dummy interface", []twist{has(hasNode("kube-lb0", "10.0.0.5/32"))}, "", "", "map[] map[]"},
		{"a remote one of before is still here", []twist{withoutMarks, heldRemote("203.0.113.7"), has(hasNode("kube-lb0", "203.0.113.7/32"))}, "", "", "map[] map[203.0.113.7:kube-lb0]"},
		{"a remote one of before is gone", []twist{withoutMarks, heldRemote("203.0.113.7")}, "", "", "map[] map[]"},
	} {
		s := theSituation()
		for _, change := range tt.has {
			change(&s)
		}
		added, failed := map[netip.Addr]Address{}, map[netip.Addr]error{}
		if tt.added != "" {
			added[one(tt.added)] = Address{}
		}
		if tt.fails != "" {
			failed[one(tt.fails)] = ErrWaiting
		}
		local, remote := Holds(s, Plan{Decisions: decisions}, Carried(s.Node), added, failed)
		if got := fmt.Sprint(local, remote); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func unmarked(a *Address) { a.Mark = 0 }

func routed(a *Address) { a.NoPrefixRoute = false }

func routes(s *Situation) { s.Agent.LocalAddress.NoPrefixRoute = false }
