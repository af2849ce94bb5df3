package announce_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
)

func TestLocalInterfaces(t *testing.T) {
	const eth0, eth1, both = "10.0.0.0/24 192.168.1.0/24 2001:db8::/64 fd00::/64", "10.9.0.0/16 fd09::/64", "10.0.0.0/24 10.9.0.0/16 192.168.1.0/24 2001:db8::/64 fd00::/64 fd09::/64"
	const nowhere, onEth1 = "- -", "10.9.0.5/16 dev eth1, fd09::5/64 dev eth1"
	for _, tt := range []struct {
		name  string
		given []twist
		// subnets is the text of the Lease. The other fields say where 10.9.0.5 and fd09::5,
		// which no other node has, are announced.
		subnets string
		want    string
	}{
		{"the default route's", nil, eth0, nowhere},
		{"that of the other family, if one has none", []twist{func(s *announce.Situation) { s.Node.Links[1].Default6 = false }}, eth0, nowhere},
		{"both families', when they differ", []twist{func(s *announce.Situation) { s.Node.Links[1].Default6, s.Node.Links[2].Default6 = false, true }}, both, onEth1},
		{"all of a multipath route", []twist{func(s *announce.Situation) { s.Node.Links[2].Default4 = true }}, both, onEth1},
		{"those that the expression matches", []twist{matching("eth1")}, eth1, onEth1},
		{"the whole name must match", []twist{matching("eth")}, "", nowhere},
		{"all that lead to a network", []twist{all, neighbors("eth1")}, both, onEth1},
		{"of all, that of the default route first", []twist{all, neighbors("eth1"), has(hasNode("eth0", "10.9.0.2/16"), hasNode("eth0", "fd09::2/64"))},
			both, "10.9.0.5/16 dev eth0, fd09::5/64 dev eth0"},
		{"of all, not one without carrier", []twist{all, neighbors("eth1"), down("eth1")}, eth0, nowhere},
		{"of all, not a tunnel without neighbors", []twist{all}, eth0, nowhere},
		{"of all, not the networks of pods", []twist{all, links("bridge cni0", "bridge docker0", "openvswitch antrea-gw0", "vxlan flannel.1", "dummy nodelocal", "veth veth1"),
			has(hasNode("cni0", "10.244.1.1/24"), hasNode("docker0", "172.17.0.1/16"), hasNode("antrea-gw0", "10.245.1.1/24"), hasNode("flannel.1", "10.244.1.0/32"),
				hasNode("nodelocal", "10.9.0.9/16"), hasNode("cni0", "fd09::1/64"), hasNode("veth1", "10.9.0.1/32"), hasNode("veth1", "fd09::1/128"))},
			eth0, nowhere},
		{"of all, a bridge that has the default route", []twist{all, links("bridge br0"), has(hasNode("br0", "10.9.0.1/16"), hasNode("br0", "fd09::1/64")),
			func(s *announce.Situation) { s.Node.Links[4].Default4 = true }},
			both, "10.9.0.5/16 dev br0, fd09::5/64 dev br0"},
		{"of all, one on top of a network card", []twist{all, links("vlan eth2.5"), has(hasNode("eth2.5", "10.9.0.1/16"), hasNode("eth2.5", "fd09::1/64"))},
			both, "10.9.0.5/16 dev eth2.5, fd09::5/64 dev eth2.5"},
		{"of all, no part of a bridge, bond or VRF", []twist{all, neighbors("eth1"), enslaved("eth1")}, eth0, nowhere},
		{"such a part by name", []twist{further("eth1"), enslaved("eth1")}, both, onEth1},
		{"and further ones by name", []twist{further("eth7", "eth1")}, both, onEth1},
		{"never the dummy, loopback or kube-proxy's", []twist{matching(".*"), has(hasNode("kube-lb0", "10.7.0.1/24"), hasNode("kube-ipvs0", "10.6.0.1/24")),
			func(s *announce.Situation) {
				s.Node.Links = append(s.Node.Links, announce.Link{Name: "kube-ipvs0", Index: 9, Up: true})
			}},
			both, onEth1},
		{"not one that is down", []twist{further("eth1"), down("eth1")}, eth0, nowhere},
		{"no network of an address that stands alone or of the link only", []twist{matching("eth1"),
			has(hasNode("eth1", "203.0.113.1/32"), hasNode("eth1", "fd77::1/128"), hasNode("eth1", "169.254.1.1/16"))},
			eth1, onEth1},
		{"nor of a service address", []twist{matching("eth1"), has(hasLocal("eth1", "198.51.100.1/25", lifetime), hasLocal("eth1", "fd66::1/64", lifetime))}, eth1, onEth1},
		{"nor of an IPv6 address that may not be used", []twist{matching("eth1"), has(
			with(hasNode("eth1", "fd61::1/64"), func(a *announce.Address) { a.Tentative = true }),
			with(hasNode("eth1", "fd62::1/64"), func(a *announce.Address) { a.Failed = true }))},
			eth1, onEth1},
		{"that of an IPv6 address that a router has not renewed, while it is valid", []twist{matching("eth1"), deprecated},
			"10.9.0.0/16 fd09::/64 fd63::/64", onEth1},
		{"without marks it may be a service address", []twist{matching("eth1"), deprecated, withoutMarks}, eth1, onEth1},
		{"an IPv4 address that expires is a lease of DHCP", []twist{matching("eth1"), has(with(hasNode("eth1", "198.51.100.1/25"), func(a *announce.Address) { a.Valid, a.Preferred = time.Hour, time.Hour }))},
			"10.9.0.0/16 198.51.100.0/25 fd09::/64", onEth1},
		{"the narrowest network gives the mask", []twist{matching("eth1"), has(hasNode("eth1", "10.9.0.2/28"), hasNode("eth1", "fd09::2/80"))},
			"10.9.0.0/16 10.9.0.0/28 fd09::/64 fd09::/80", "10.9.0.5/28 dev eth1, fd09::5/80 dev eth1"},
		{"by name, the first interface in order", []twist{further("eth2", "eth1"), has(hasNode("eth2", "10.9.0.3/16"), hasNode("eth2", "fd09::3/64")),
			func(s *announce.Situation) {
				s.Node.Links = append(s.Node.Links, announce.Link{Name: "eth2", Index: 5, Up: true, Carrier: true})
			}},
			both, "10.9.0.5/16 dev eth2, fd09::5/64 dev eth2"},
		{"networks of routes, for which an address stands alone", []twist{onRoutes("eth0 10.9.0.0/16", "eth0 fd09::/64")}, both, "10.9.0.5/32 dev eth0, fd09::5/128 dev eth0"},
		{"not those of other links", []twist{onRoutes("eth1 10.9.0.0/16", "eth1 fd09::/64")}, eth0, nowhere},
		{"a route of the kernel around an address of DHCPv6", []twist{onRoutes("eth0 fd09::/64 kernel"), has(hasNode("eth0", "fd09::7/128"))},
			"10.0.0.0/24 192.168.1.0/24 2001:db8::/64 fd00::/64 fd09::/64", "- -"},
		{"but not around a service address, or one of another link", []twist{onRoutes("eth0 fd09::/64 kernel", "eth0 10.9.0.0/16 kernel"),
			has(hasLocal("eth0", "fd09::7/128", lifetime), hasLocal("eth0", "10.9.0.7/32", lifetime), hasNode("lo", "fd09::8/128"))}, eth0, nowhere},
		{"networks that the agent adds to the first interface", []twist{adds("10.9.0.0/16", "fd09::/64"), further("eth1"), link("eth1", func(l *announce.Link) { l.Up = false })},
			both, "10.9.0.5/32 dev eth0, fd09::5/128 dev eth0"},
		{"but not before an interface with an address there", []twist{adds("10.9.0.0/16", "fd09::/64"), further("eth1")}, both, onEth1},
		{"no interface, no further network", []twist{adds("10.9.0.0/16"), matching("eth7")}, "", nowhere},
		{"an interface with an address of the network before one with a route", []twist{all, neighbors("eth1"), onRoutes("eth0 10.9.0.0/16", "eth0 fd09::/64")}, both, onEth1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := situation(append(tt.given, serve("10.9.0.5", "fd09::5"))...)
			subnets := announce.Subnets(s.Agent, s.Node)
			equal(t, strings.Trim(fmt.Sprint(subnets), "[]"), tt.subnets)
			s.Peers.Members = []election.Member{{Node: "node-a", Subnets: subnets, Eligible: true}}
			got := "- -"
			if w := announce.Decide(s).Wanted; len(w) == 2 {
				got = fmt.Sprintf("%s dev %s, %s dev %s", w[0].Prefix, w[0].Link, w[1].Prefix, w[1].Link)
			}
			if got != tt.want {
				t.Errorf("announced on %q, want %q", got, tt.want)
			}
		})
	}
}

func TestDecisionsSayByWhichLinkAnswersLeave(t *testing.T) {
	for _, tt := range []struct {
		name  string
		given []twist
		want  string
	}{
		{"the interface of the default route", nil, "[eth0  eth0 ]"},
		{"another interface", []twist{further("eth1")}, "[eth0  eth0  eth1 eth0 eth1 eth0]"},
		{"both have a default route", []twist{further("eth1"), link("eth1", func(l *announce.Link) { l.Default4 = true })}, "[eth0  eth0  eth1  eth1 eth0]"},
		{"without a default route", []twist{further("eth1", "eth0"), link("eth0", func(l *announce.Link) { l.Default4, l.Default6 = false, false })},
			"[eth0  eth0  eth1  eth1 ]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := situation(append(tt.given, serve("10.0.0.5", "fd00::50", "10.9.0.5", "fd09::5"))...)
			s.Peers.Members = []election.Member{{Node: "node-a", Subnets: announce.Subnets(s.Agent, s.Node), Eligible: true}}
			got := []string{}
			for _, d := range announce.Decide(s).Decisions {
				if d.Where == announce.Local {
					got = append(got, d.Address.Link, d.AnswersBy)
				}
			}
			equal(t, fmt.Sprint(got), tt.want)
		})
	}
}

// onRoutes sets networks of routes, each written as "LINK NETWORK", and "kernel" if the kernel made the route.
func onRoutes(texts ...string) twist {
	return func(s *announce.Situation) {
		for _, text := range texts {
			words := strings.Fields(text)
			s.Node.Networks = append(s.Node.Networks, announce.Network{Link: words[0], Prefix: prefixes(words[1])[0], ByKernel: len(words) > 2})
		}
	}
}

// adds makes the agent add networks to the first interface.
func adds(networks ...string) twist {
	return func(s *announce.Situation) { s.Agent.Networks = prefixes(networks...) }
}

// all makes the agent use every interface that leads to a network.
func all(s *announce.Situation) { s.Agent.All = true }

// neighbors makes a link one on which ARP and Neighbor Discovery find hosts.
func neighbors(name string) twist { return link(name, func(l *announce.Link) { l.Neighbors = true }) }

// enslaved makes a link part of another one.
func enslaved(name string) twist { return link(name, func(l *announce.Link) { l.Master = 10 }) }

// links adds working links, each written as its kind and its name.
func links(texts ...string) twist {
	return func(s *announce.Situation) {
		for i, text := range texts {
			kind, name, _ := strings.Cut(text, " ")
			s.Node.Links = append(s.Node.Links, announce.Link{Name: name, Kind: kind, Index: 10 + i, Neighbors: true, Up: true, Carrier: true})
		}
	}
}

// deprecated adds an IPv6 address of the node that is valid, and not preferred any more.
func deprecated(s *announce.Situation) {
	s.Node.Addresses = append(s.Node.Addresses, with(hasNode("eth1", "fd63::1/64"), func(a *announce.Address) { a.Preferred = 0 }))
}

func TestProblemNamesTheInterface(t *testing.T) {
	wlan := func(up bool) twist {
		return func(s *announce.Situation) {
			s.Node.Links = append(s.Node.Links, announce.Link{Name: "wlan0", Index: 10, Up: up})
		}
	}
	noRoute := link("eth0", func(l *announce.Link) { l.Default4, l.Default6 = false, false })
	for _, tt := range []struct {
		name  string
		given []twist
		want  string
	}{
		{"all is well", nil, ""},
		{"one that is down is the cause, and not the expression that matches it", []twist{wlan(false), matching("wlan0")}, "interface wlan0 is down"},
		{"without a carrier", []twist{wlan(true), matching("wlan0")}, "interface wlan0 has no carrier"},
		{"down and named", []twist{wlan(false), matching("wlan9"), further("wlan0")}, "interface wlan0 is down"},
		{"another is down", []twist{wlan(false), matching("wlan9")}, `no interface matches "wlan9"; the node has eth0, eth1`},
		{"an expression that matches nothing", []twist{matching("wlan0")}, `no interface matches "wlan0"; the node has eth0, eth1`},
		{"expression and names", []twist{matching("wlan0"), further("eth8", "eth9")}, `no interface is one of eth8, eth9 or matches "wlan0"; the node has eth0, eth1`},
		{"all, and none leads to a network", []twist{all, noRoute}, "no interface leads to a network; the node has eth0, eth1"},
		{"no default route", []twist{noRoute}, "no interface has a default route; the node has eth0, eth1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := situation(tt.given...)
			equal(t, announce.Problem(*s.Agent, s.Node), tt.want)
		})
	}
}
