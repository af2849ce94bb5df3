package announce_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/announce"
)

func TestAdopt(t *testing.T) {
	const ageless = 10 * 365 * 24 * time.Hour // the lifetime of a local address that should not expire
	lasts := func(d time.Duration) func(*announce.Address) {
		return func(a *announce.Address) { a.Mark, a.Valid = 0, d }
	}
	local4, local6 := hasLocal("eth0", "10.0.0.5/24", lifetime), hasLocal("eth0", "fd00::50/64", lifetime)
	dhcp4, dhcp6 := hasLocal("eth0", "10.0.0.77/24", lifetime), hasLocal("eth0", "fd00::77/64", lifetime)
	for _, tt := range []struct {
		name  string
		is    announce.Address
		given []twist
		want  bool
	}{
		{"local IPv4", with(local4, unmarked), nil, true},
		{"local IPv6", with(local6, unmarked), nil, true},
		{"local, though its pool was deleted", with(local4, unmarked), []twist{noGroups}, true},
		{"that of a Service which DHCP has given to the node, IPv4", with(local4, lasts(time.Hour)), nil, false},
		{"that of a Service which DHCP has given to the node, IPv6", with(local6, lasts(time.Hour)), nil, false},
		{"local, by a longer lifetime", with(local4, lasts(time.Hour)), []twist{func(s *announce.Situation) { s.Agent.LocalAddress.Valid = time.Hour }}, true},
		{"local, from when lifetimes were longer", with(local4, lasts(time.Hour)), []twist{held("eth0", "10.0.0.5")}, true},
		{"local, with a prefix route", with(with(local4, unmarked), routed), []twist{routes}, true},
		{"local, with a prefix route, from another LBNodeAgent", with(with(local4, unmarked), routed), []twist{held("eth0", "10.0.0.5")}, true},
		{"that of a Service with a prefix route, if the LBNodeAgent asks for none", with(with(local4, unmarked), routed), nil, false},
		{"local, ageless", with(local4, lasts(ageless-time.Hour)), nil, true},
		{"ageless, but of no Service", with(dhcp4, lasts(ageless)), nil, false},
		{"that of a Service without an end, on the node's own interface", with(local4, lasts(announce.Forever)), []twist{held("eth0", "10.0.0.5")}, false},
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
		{"remote, from when the dummy interface had another name", hasNode("kube-lb0", "172.16.0.1/24"), []twist{heldRemote("172.16.0.1"), func(s *announce.Situation) { s.Agent.Dummy = "lb9" }}, true},
		{"of a backend, on another link", hasNode("eth0", "203.0.113.7/32"), []twist{heldRemote("203.0.113.7")}, false},
		{"the node's own in a pool, IPv4", hasNode("eth0", "10.0.0.1/24"), nil, false},
		{"the node's own in a pool, IPv6", hasNode("eth0", "fd00::a/64"), nil, false},
	} {
		s := situation(append([]twist{withoutMarks, serve("10.0.0.5", "fd00::50")}, tt.given...)...)
		s.Node.Addresses = append(s.Node.Addresses, tt.is)
		s.Adopt()
		if got := s.Node.Addresses[len(s.Node.Addresses)-1].Adopted; got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	marked := situation(has(hasLocal("eth0", "10.0.0.5/24", lifetime)))
	if slices.ContainsFunc(marked.Node.Addresses, func(a announce.Address) bool { return a.Adopted }) {
		t.Error("with marks there is nothing to guess")
	}
}

func TestHolds(t *testing.T) {
	one := netip.MustParseAddr
	decisions := []announce.Decision{
		{IP: one("10.0.0.5"), Where: announce.Local, Address: announce.Address{Link: "eth0"}},
		{IP: one("172.16.0.1"), Where: announce.Remote, Address: announce.Address{Link: "kube-lb0"}},
		{IP: one("10.0.0.9"), Where: announce.Nowhere},
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
		s := situation(tt.has...)
		added, failed := map[netip.Addr]announce.Address{}, map[netip.Addr]error{}
		if tt.added != "" {
			added[one(tt.added)] = announce.Address{}
		}
		if tt.fails != "" {
			failed[one(tt.fails)] = announce.ErrWaiting
		}
		local, remote := announce.Holds(s, announce.Plan{Decisions: decisions}, added, failed)
		if got := fmt.Sprint(local, remote); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func unmarked(a *announce.Address) { a.Mark = 0 }

func routed(a *announce.Address) { a.NoPrefixRoute = false }

func routes(s *announce.Situation) { s.Agent.LocalAddress.NoPrefixRoute = false }

func TestOwn(t *testing.T) {
	soon := func(a *announce.Address) { a.Valid, a.Preferred, a.NoPrefixRoute = 5*time.Minute, 0, true }
	service := []announce.Service{{Key: "default/web", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("fd00::9")}}}
	for _, tt := range []struct {
		name    string
		found   []announce.Address
		adopted bool
		want    string
	}{
		{"the node's own, IPv4 and IPv6, on whichever link",
			list(hasNode("eth0", "10.0.0.2/24"), hasNode("eth1", "192.0.2.2/32"), hasNode("eth0", "fd00::2/64")), false, "10.0.0.2 192.0.2.2 fd00::2"},
		{"each once", list(hasNode("eth0", "10.0.0.2/24"), hasNode("eth1", "10.0.0.2/32")), false, "10.0.0.2"},
		{"not those that PureLB put there",
			list(hasLocal("eth0", "10.0.0.5/24", time.Minute), hasLocal("eth0", "fd00::5/64", time.Minute), hasRemote("kube-lb0", "172.16.0.1/32")), false, ""},
		{"nor those that it put there without a mark", list(hasNode("eth0", "10.0.0.5/24")), true, ""},
		{"nor those of an agent before marks",
			list(with(hasNode("eth0", "10.0.0.9/24"), soon), with(hasNode("eth0", "fd00::9/64"), soon), hasNode("kube-lb0", "172.16.0.1/32")), false, ""},
		{"but a leased address of the node", list(with(hasNode("eth0", "10.0.0.10/24"), soon)), false, "10.0.0.10"},
		{"not on links that lead nowhere",
			list(hasNode("lo", "10.0.0.2/32"), hasNode("dummy7", "10.0.0.3/32"), hasNode("kube-ipvs0", "fd00::3/128")), false, ""},
		{"not of the link only, nor of nobody",
			list(hasNode("eth0", "169.254.0.1/16"), hasNode("eth0", "fe80::1/64"), hasNode("eth0", "127.0.0.2/8")), false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := theSituation().Node
			node.Links = append(node.Links, announce.Link{Name: "dummy7", Kind: "dummy"})
			node.MarksSupported, node.Addresses = !tt.adopted, tt.found
			for i := range node.Addresses {
				node.Addresses[i].Adopted = tt.adopted
			}
			own := announce.Own(node, service)
			equal(t, strings.Trim(fmt.Sprint(own), "[]"), tt.want)
		})
	}
}

// The plugin ptp for pods puts the same address on the veth of each pod. The Lease must not change
// whenever a pod starts.
func TestMACs(t *testing.T) {
	node := announce.Node{
		Links: []announce.Link{
			{Name: "lo"}, {Name: "eth1", MAC: mac(9)}, {Name: "eth0", Kind: "veth", MAC: mac(1)}, {Name: "vlan7", MAC: mac(1)}, {Name: "pod", MAC: mac(3)},
			{Name: "unused", MAC: mac(4)}, {Name: "kube-lb0", Kind: "dummy", MAC: mac(5)}, {Name: "tunnel"}, {Name: "ours", MAC: mac(6)}, {Name: "eth2", MAC: mac(10)},
			{Name: "vethpod1", Kind: "veth", MAC: mac(7)}, {Name: "vethpod2", Kind: "veth", MAC: mac(8)},
		},
		Addresses: list(hasNode("lo", "192.0.2.1/32"), hasNode("eth0", "10.0.0.2/24"), hasNode("eth0", "10.0.0.3/32"), hasNode("eth1", "fd00::2/64"), hasNode("vlan7", "10.0.7.2/24"),
			hasNode("pod", "fe80::1/64"), hasNode("kube-lb0", "10.0.9.1/32"), hasNode("tunnel", "10.0.8.1/32"), hasLocal("ours", "10.0.0.5/24", time.Minute), hasNode("eth2", "192.0.2.2/32"),
			hasNode("vethpod1", "10.244.1.1/32"), hasNode("vethpod2", "10.244.1.1/32"), hasNode("vethpod2", "fd09::1/128")),
	}
	equal(t, announce.MACs(node), [][6]byte{mac(1), mac(9), mac(10)})
}

func TestForServices(t *testing.T) {
	at := func(link, prefix string, mark uint8) announce.Address {
		return announce.Address{Link: link, Prefix: netip.MustParsePrefix(prefix), Mark: mark}
	}
	got := announce.ForServices([]announce.Address{
		at("lo", "127.0.0.1/8", 0), at("eth0", "192.0.2.1/24", 0), at("eth0", "192.0.2.9/24", announce.Mark),
		at("kube-lb0", "203.0.113.7/32", announce.Mark), at("kube-ipvs0", "10.96.0.1/32", 0), at("kube-ipvs0", "192.0.2.10/32", 0),
		at("eth0", "192.0.2.2/24", 0), at("kube-ipvs0", "192.0.2.2/32", 0), // the node's own address in a pool
	})
	want := map[netip.Addr]bool{}
	for _, text := range []string{"192.0.2.9", "203.0.113.7", "10.96.0.1", "192.0.2.10"} {
		want[netip.MustParseAddr(text)] = true
	}
	equal(t, got, want)
}
