package agent

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/testing/expect"
)

// single replaces the addresses of a host by addresses without a network, as DHCPv6 and many clouds give
// them. Routes show the networks.
func (s *segment) single(name string, number int) {
	s.hosts[name].in(func() {
		ip(s.t, fmt.Sprintf(`addr flush dev eth0 scope global
			addr add 192.0.2.%[1]d/32 dev eth0
			addr add 2001:db8::%[1]d/128 dev eth0 nodad
			route add 192.0.2.0/24 dev eth0
			route add default via 192.0.2.254
			-6 route replace 2001:db8::/64 dev eth0 proto kernel
			-6 route replace default via 2001:db8::254`, number))
	})
}

// sourceOf returns the address from which a host reaches another machine.
func (s *segment) sourceOf(name, destination string) (source string) {
	s.hosts[name].in(func() {
		out, err := exec.Command("ip", "route", "get", destination).CombinedOutput()
		if err != nil {
			s.t.Error(err)
		}
		_, after, _ := strings.Cut(string(out), " src ")
		source, _, _ = strings.Cut(after, " ")
	})
	return source
}

// The router has a second network on the segment, in which no node has an address. It and the nodes accept
// only packets that come by the interface of the route back.
func TestNodesAnnounceInAFurtherNetworkOfTheSegment(t *testing.T) {
	t.Parallel()
	s := newSegment(t, "a", "b")
	ip(t, "addr add 203.0.113.1/28 dev br0\naddr add 2001:db8:7::1/64 dev br0 nodad")
	expect.NoError(t, os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte("1"), 0))
	for _, h := range s.hosts {
		h.in(func() {
			if err := os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte("1"), 0); err != nil {
				t.Error(err)
			}
		})
	}
	s.change(func(o *objects) {
		o.Groups = append(o.Groups, localGroup("provider", "203.0.113.0/28", "2001:db8:7::/64"))
		o.Agents[0].Spec.Local.Networks = []v2.Subnet{"203.0.113.0/28", "2001:db8:7::/64"}
	})
	s.start("a", nil)
	s.start("b", nil)
	s.eventually("the nodes know each other", func() bool { return len(s.exchange.members) == 2 })
	s.change(serving(branded("web", "203.0.113.5", "2001:db8:7::5")))
	for _, address := range []string{"203.0.113.5", "2001:db8:7::5"} {
		eventually(t, "one node has "+address, func() bool { return len(s.holders(address)) == 1 })
	}
	have, lacks := s.holders("203.0.113.5"), "a"
	if have == "a" {
		lacks = "b"
	}
	near, far := newPingerFrom(t, "203.0.113.1", "203.0.113.5"), newPinger(t, "203.0.113.5")
	near.again(t)
	far.again(t)
	s.exclude(have, true)
	eventuallyIs(t, "the holder after the handover", lacks, func() string { return s.holders("203.0.113.5") })
	for _, c := range []*pinger{near, far} {
		c.again(t)
		if lost, gap := c.end(t); lost != 0 {
			t.Errorf("%d requests have no answer, the longest gap is %s; want none", lost, gap)
		}
	}
}

func TestNodesWithSingleAddressesAnnounceInTheNetworksOfTheirRoutes(t *testing.T) {
	t.Parallel()
	s := newSegment(t, "a", "b")
	s.single("a", 1)
	s.single("b", 2)
	stop := map[string]func(){"a": s.start("a", nil), "b": s.start("b", nil)}
	s.eventually("the nodes know each other", func() bool { return len(s.exchange.members) == 2 })
	s.change(serving(branded("web", "192.0.2.9", "2001:db8::9")))
	for _, address := range []string{"192.0.2.9", "2001:db8::9"} {
		eventually(t, "one node has "+address, func() bool { return len(s.holders(address)) == 1 })
	}
	have, lacks := s.holders("192.0.2.9"), "a"
	if have == "a" {
		lacks = "b"
	}
	c := newPinger(t, "192.0.2.9")
	c.again(t)
	expect.Equal(t, "the source of the node's own connections", s.sourceOf(have, "198.51.100.1"), map[string]string{"a": "192.0.2.1", "b": "192.0.2.2"}[have])

	s.exclude(have, true)
	s.expect("after the handover", lacks)
	c.again(t)
	if lost, gap := c.end(t); lost != 0 {
		t.Errorf("%d requests have no answer, the longest gap is %s; want none", lost, gap)
	}
	stop[have]()
	stop[lacks]()
}
