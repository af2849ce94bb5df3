package agent

import (
	"os/exec"
	"strings"
	"testing"

	"purelb.io/purelb/internal/announce/probe"
	"purelb.io/purelb/internal/testing/expect"
)

// reported returns the events of the agent on a host since the last call.
func (h *host) reported() string {
	var all []string
	for {
		select {
		case event := <-h.events.Events:
			all = append(all, event)
		default:
			return strings.Join(all, "\n")
		}
	}
}

// Port security and filters against spoofing let through only what a switch or hypervisor knows. The
// filter of this test knows one of two addresses.
func TestTheHolderLearnsThatTheNetworkDropsItsAnswers(t *testing.T) {
	t.Parallel()
	s := newSegment(t, "a", "b")
	s.start("a", nil)
	s.eventually("the node is known", func() bool { return len(s.exchange.members) == 1 })
	s.start("b", nil)
	s.eventually("the nodes know each other", func() bool { return len(s.exchange.members) == 2 })
	s.exclude("b", true)
	s.eventually("a is to have all addresses", func() bool { return s.exchange.members["b"].Draining })
	filter := "add table netdev f; add chain netdev f in {type filter hook ingress device port-a priority 0;}; add rule netdev f in arp saddr ip 192.0.2.9 drop"
	out, err := exec.Command("nft", filter).CombinedOutput()
	expect.Equal(t, "the output of nft", string(out), "")
	expect.NoError(t, err)

	s.change(serving(branded("web", "192.0.2.9", "192.0.2.10")))
	var events string
	eventually(t, "an event of the agent", func() bool {
		events += s.hosts["a"].reported()
		return strings.Contains(events, "AddressNotHeard")
	})
	expect.Contains(t, "events", events, "Warning AddressNotHeard 192.0.2.9 is on node a, but node b in the same network cannot hear it: "+probe.Dropped)
	lacks(t, "events", events, "192.0.2.10 is on node a, but")
}
