package announce

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/election"
)

func TestLocalAddressesGoToTheInterfacesThatAreMeant(t *testing.T) {
	for _, tt := range []struct {
		name  string
		given []twist
		// subnets is the text of the Lease. The other fields say where 10.9.0.5 and fd09::5,
		// which no other node has, are announced.
		subnets string
		want    string
	}{
		{"the default route's", nil,
			"10.0.0.0/24 192.168.1.0/24 2001:db8::/64 fd00::/64", "- -"},
		{"that of the other family, if one has none", []twist{func(s *Situation) { s.Node.Links[1].Default6 = false }},
			"10.0.0.0/24 192.168.1.0/24 2001:db8::/64 fd00::/64", "- -"},
		{"both families', when they differ", []twist{func(s *Situation) { s.Node.Links[1].Default6, s.Node.Links[2].Default6 = false, true }},
			"10.0.0.0/24 10.9.0.0/16 192.168.1.0/24 2001:db8::/64 fd00::/64 fd09::/64", "10.9.0.5/16 dev eth1, fd09::5/64 dev eth1"},
		{"all of a multipath route", []twist{func(s *Situation) { s.Node.Links[2].Default4 = true }},
			"10.0.0.0/24 10.9.0.0/16 192.168.1.0/24 2001:db8::/64 fd00::/64 fd09::/64", "10.9.0.5/16 dev eth1, fd09::5/64 dev eth1"},
		{"those that the expression matches", []twist{matching("eth1")},
			"10.9.0.0/16 fd09::/64", "10.9.0.5/16 dev eth1, fd09::5/64 dev eth1"},
		{"the whole name must match", []twist{matching("eth")},
			"", "- -"},
		{"all that lead to a network", []twist{all, neighbors("eth1")},
			"10.0.0.0/24 10.9.0.0/16 192.168.1.0/24 2001:db8::/64 fd00::/64 fd09::/64", "10.9.0.5/16 dev eth1, fd09::5/64 dev eth1"},
		{"of all, that of the default route first", []twist{all, neighbors("eth1"), has(hasNode("eth0", "10.9.0.2/16"), hasNode("eth0", "fd09::2/64"))},
			"10.0.0.0/24 10.9.0.0/16 192.168.1.0/24 2001:db8::/64 fd00::/64 fd09::/64", "10.9.0.5/16 dev eth0, fd09::5/64 dev eth0"},
		{"of all, not one without carrier", []twist{all, neighbors("eth1"), down("eth1")},
			"10.0.0.0/24 192.168.1.0/24 2001:db8::/64 fd00::/64", "- -"},
		{"of all, not a tunnel without neighbors", []twist{all},
			"10.0.0.0/24 192.168.1.0/24 2001:db8::/64 fd00::/64", "- -"},
		{"of all, not the networks of pods", []twist{all, links("bridge cni0", "bridge docker0", "openvswitch antrea-gw0", "vxlan flannel.1", "dummy nodelocal", "veth veth1"),
			has(hasNode("cni0", "10.244.1.1/24"), hasNode("docker0", "172.17.0.1/16"), hasNode("antrea-gw0", "10.245.1.1/24"), hasNode("flannel.1", "10.244.1.0/32"),
				hasNode("nodelocal", "10.9.0.9/16"), hasNode("cni0", "fd09::1/64"), hasNode("veth1", "10.9.0.1/32"), hasNode("veth1", "fd09::1/128"))},
			"10.0.0.0/24 192.168.1.0/24 2001:db8::/64 fd00::/64", "- -"},
		{"of all, a bridge that has the default route", []twist{all, links("bridge br0"), has(hasNode("br0", "10.9.0.1/16"), hasNode("br0", "fd09::1/64")),
			func(s *Situation) { s.Node.Links[4].Default4 = true }},
			"10.0.0.0/24 10.9.0.0/16 192.168.1.0/24 2001:db8::/64 fd00::/64 fd09::/64", "10.9.0.5/16 dev br0, fd09::5/64 dev br0"},
		{"of all, one on top of a network card", []twist{all, links("vlan eth2.5"), has(hasNode("eth2.5", "10.9.0.1/16"), hasNode("eth2.5", "fd09::1/64"))},
			"10.0.0.0/24 10.9.0.0/16 192.168.1.0/24 2001:db8::/64 fd00::/64 fd09::/64", "10.9.0.5/16 dev eth2.5, fd09::5/64 dev eth2.5"},
		{"of all, no part of a bridge, bond or VRF", []twist{all, neighbors("eth1"), enslaved("eth1")},
			"10.0.0.0/24 192.168.1.0/24 2001:db8::/64 fd00::/64", "- -"},
		{"such a part by name", []twist{further("eth1"), enslaved("eth1")},
			"10.0.0.0/24 10.9.0.0/16 192.168.1.0/24 2001:db8::/64 fd00::/64 fd09::/64", "10.9.0.5/16 dev eth1, fd09::5/64 dev eth1"},
		{"and further ones by name", []twist{further("eth7", "eth1")},
			"10.0.0.0/24 10.9.0.0/16 192.168.1.0/24 2001:db8::/64 fd00::/64 fd09::/64", "10.9.0.5/16 dev eth1, fd09::5/64 dev eth1"},
		{"never the dummy, loopback or kube-proxy's", []twist{matching(".*"), has(hasNode("kube-lb0", "10.7.0.1/24"), hasNode("kube-ipvs0", "10.6.0.1/24")),
			func(s *Situation) {
				s.Node.Links = append(s.Node.Links, Link{Name: "kube-ipvs0", Index: 9, Up: true})
			}},
			"10.0.0.0/24 10.9.0.0/16 192.168.1.0/24 2001:db8::/64 fd00::/64 fd09::/64", "10.9.0.5/16 dev eth1, fd09::5/64 dev eth1"},
		{"not one that is down", []twist{further("eth1"), down("eth1")},
			"10.0.0.0/24 192.168.1.0/24 2001:db8::/64 fd00::/64", "- -"},
		{"no network of an address that stands alone or of the link only", []twist{matching("eth1"),
			has(hasNode("eth1", "203.0.113.1/32"), hasNode("eth1", "fd77::1/128"), hasNode("eth1", "169.254.1.1/16"))},
			"10.9.0.0/16 fd09::/64", "10.9.0.5/16 dev eth1, fd09::5/64 dev eth1"},
		{"nor of a service address", []twist{matching("eth1"), has(hasLocal("eth1", "198.51.100.1/25", lifetime), hasLocal("eth1", "fd66::1/64", lifetime))},
			"10.9.0.0/16 fd09::/64", "10.9.0.5/16 dev eth1, fd09::5/64 dev eth1"},
		{"nor of an IPv6 address that may not be used", []twist{matching("eth1"), has(
			with(hasNode("eth1", "fd61::1/64"), func(a *Address) { a.Tentative = true }),
			with(hasNode("eth1", "fd62::1/64"), func(a *Address) { a.Failed = true }))},
			"10.9.0.0/16 fd09::/64", "10.9.0.5/16 dev eth1, fd09::5/64 dev eth1"},
		{"that of an IPv6 address that a router has not renewed, while it is valid", []twist{matching("eth1"), deprecated},
			"10.9.0.0/16 fd09::/64 fd63::/64", "10.9.0.5/16 dev eth1, fd09::5/64 dev eth1"},
		{"without marks it may be a service address", []twist{matching("eth1"), deprecated, withoutMarks},
			"10.9.0.0/16 fd09::/64", "10.9.0.5/16 dev eth1, fd09::5/64 dev eth1"},
		{"an IPv4 address that expires is a lease of DHCP", []twist{matching("eth1"), has(with(hasNode("eth1", "198.51.100.1/25"), func(a *Address) { a.Valid, a.Preferred = time.Hour, time.Hour }))},
			"10.9.0.0/16 198.51.100.0/25 fd09::/64", "10.9.0.5/16 dev eth1, fd09::5/64 dev eth1"},
		{"the narrowest network gives the mask", []twist{matching("eth1"), has(hasNode("eth1", "10.9.0.2/28"), hasNode("eth1", "fd09::2/80"))},
			"10.9.0.0/16 10.9.0.0/28 fd09::/64 fd09::/80", "10.9.0.5/28 dev eth1, fd09::5/80 dev eth1"},
		{"by name, the first interface in order", []twist{further("eth2", "eth1"), has(hasNode("eth2", "10.9.0.3/16"), hasNode("eth2", "fd09::3/64")),
			func(s *Situation) {
				s.Node.Links = append(s.Node.Links, Link{Name: "eth2", Index: 5, Up: true, Carrier: true})
			}},
			"10.0.0.0/24 10.9.0.0/16 192.168.1.0/24 2001:db8::/64 fd00::/64 fd09::/64", "10.9.0.5/16 dev eth2, fd09::5/64 dev eth2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := theSituation()
			for _, change := range append(tt.given, serve("10.9.0.5", "fd09::5")) {
				change(&s)
			}
			subnets := Subnets(s.Agent, s.Node, nil)
			if got := strings.Trim(fmt.Sprint(subnets), "[]"); got != tt.subnets {
				t.Errorf("subnets are %q, want %q", got, tt.subnets)
			}
			s.Peers.Members = []election.Member{{Node: "node-a", Subnets: subnets, Eligible: true}}
			got := "- -"
			if w := Decide(s).Wanted; len(w) == 2 {
				got = fmt.Sprintf("%s dev %s, %s dev %s", w[0].Prefix, w[0].Link, w[1].Prefix, w[1].Link)
			}
			if got != tt.want {
				t.Errorf("announced on %q, want %q", got, tt.want)
			}
		})
	}
}

// all makes the agent use every interface that leads to a network.
func all(s *Situation) {
	agent := *s.Agent
	agent.All = true
	s.Agent = &agent
}

// neighbors makes a link one on which ARP and Neighbor Discovery find hosts.
func neighbors(link string) twist {
	return func(s *Situation) {
		for i := range s.Node.Links {
			s.Node.Links[i].Neighbors = s.Node.Links[i].Neighbors || s.Node.Links[i].Name == link
		}
	}
}

// enslaved makes a link part of another one.
func enslaved(link string) twist {
	return func(s *Situation) {
		for i := range s.Node.Links {
			if s.Node.Links[i].Name == link {
				s.Node.Links[i].Master = 10
			}
		}
	}
}

// links adds working links, each written as its kind and its name.
func links(texts ...string) twist {
	return func(s *Situation) {
		for i, text := range texts {
			kind, name, _ := strings.Cut(text, " ")
			s.Node.Links = append(s.Node.Links, Link{Name: name, Kind: kind, Index: 10 + i, Neighbors: true, Up: true, Carrier: true})
		}
	}
}

// deprecated adds an IPv6 address of the node that is valid, and not preferred any more.
func deprecated(s *Situation) {
	s.Node.Addresses = append(s.Node.Addresses, with(hasNode("eth1", "fd63::1/64"), func(a *Address) { a.Preferred = 0 }))
}

// An interface that is down is the cause, and not the expression that matches it.
func TestAnInterfaceThatDoesNotWorkIsNamed(t *testing.T) {
	for _, tt := range []struct {
		name        string
		up, carrier bool
		local       string
		named       []string
		want        string
	}{
		{"down", false, false, "wlan0", nil, "interface wlan0 is down"},
		{"without a carrier", true, false, "wlan0", nil, "interface wlan0 has no carrier"},
		{"down and named", false, false, "wlan9", []string{"wlan0"}, "interface wlan0 is down"},
		{"another is down", false, false, "wlan9", nil, `no interface matches "wlan9"; the node has eth0, eth1`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := theSituation()
			s.Node.Links = append(s.Node.Links, Link{Name: "wlan0", Index: 10, Up: tt.up, Carrier: tt.carrier})
			agent := config.Agent{Dummy: "kube-lb0", Local: regexp.MustCompile("^(?:" + tt.local + ")$"), LocalText: tt.local, Interfaces: tt.named}
			if got := Problem(agent, s.Node, nil); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAnExpressionThatMatchesNothingSaysWhatThereIs(t *testing.T) {
	s := theSituation()
	for _, tt := range []struct {
		name  string
		agent config.Agent
		want  string
	}{
		{"all is well", config.Agent{Dummy: "kube-lb0"}, ""},
		{"expression", config.Agent{Dummy: "kube-lb0", Local: regexp.MustCompile("^(?:wlan0)$"), LocalText: "wlan0"},
			`no interface matches "wlan0"; the node has eth0, eth1`},
		{"expression and names", config.Agent{Dummy: "kube-lb0", Local: regexp.MustCompile("^(?:wlan0)$"), LocalText: "wlan0", Interfaces: []string{"eth8", "eth9"}},
			`no interface is one of eth8, eth9 or matches "wlan0"; the node has eth0, eth1`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Problem(tt.agent, s.Node, nil); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	s.Node.Links[1].Default4, s.Node.Links[1].Default6 = false, false
	if got, want := Problem(config.Agent{Dummy: "kube-lb0", All: true}, s.Node, nil), "no interface leads to a network; the node has eth0, eth1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := Problem(*s.Agent, s.Node, nil), "no interface has a default route; the node has eth0, eth1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
