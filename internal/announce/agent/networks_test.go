package agent

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

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
