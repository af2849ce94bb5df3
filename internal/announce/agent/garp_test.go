package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"purelb.io/purelb/internal/testing/expect"
)

func TestClaimsFollowTheirScheduleAndEndWithTheAddress(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.kernel.changes()
		w.cluster.change(serving(branded("web", "192.0.2.9"), branded("mail", "2001:db8::9"), branded("far", "203.0.113.7")))
		pass(700 * time.Millisecond)
		w.cluster.change(func(s *objects) { s.Services = s.Services[:1] })
		pass(10 * time.Second)
		claims := strings.Join(w.kernel.claims(), "\n")
		for _, wanted := range []struct {
			text string
			n    int
		}{{"192.0.2.9 eth0", 3}, {"2001:db8::9 eth0", 2}, {"203.0.113.7", 0}, {"100ms claim", 2}, {"600ms claim", 2}, {"1.1s claim", 1}} {
			expect.Equal(t, fmt.Sprintf("claims with %q", wanted.text), strings.Count(claims, wanted.text), wanted.n)
		}
		expect.Equal(t, "garp_sent_total", testutil.ToFloat64(w.metrics.garpSent), 3)
		expect.Equal(t, "na_sent_total", testutil.ToFloat64(w.metrics.naSent), 2)
	})
}

// Another node had the address for a while, and this node does not hear it. Machines that got its
// gratuitous ARP still send packets to it.
func TestAnAddressInTheSlotOfAnotherNodeIsClaimedAgain(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.cluster.change(serving(branded("web", "192.0.2.9", "2001:db8::9")))
		pass(10 * time.Second)
		before := len(w.kernel.claims())
		other := branded("web", "192.0.2.9", "2001:db8::9")
		other.ResourceVersion = "99"
		other.Annotations["purelb.io/announcing-IPv4"] = "unheard,eth0,192.0.2.9"
		w.cluster.change(serving(other))
		pass(10 * time.Second)
		if claims := strings.Join(w.kernel.claims()[before:], "\n"); strings.Count(claims, "192.0.2.9 eth0") < 2 || strings.Contains(claims, "2001:db8::9") {
			t.Errorf("the new claims are\n%s\nwant some of 192.0.2.9 only", claims)
		}
		expect.Contains(t, "the slots", w.slots("web"), "node-a,eth0,192.0.2.9")
	})
}

// A bridge may change its MAC when it gets another port. The kernel tells no neighbor.
func TestAddressesAreClaimedAgainWhenTheMACChanges(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.kernel.answers["192.0.2.8"] = someMAC // this node waits for that address
		w.cluster.change(serving(branded("web", "192.0.2.9", "2001:db8::9"), branded("mail", "192.0.2.8")))
		pass(time.Minute)
		before := len(w.kernel.claims())
		w.kernel.change(func() { w.kernel.links[1].MAC = [6]byte{2, 0, 0, 0, 0, 0x99} })
		settle()
		claims := strings.Join(w.kernel.claims()[before:], "\n")
		if strings.Count(claims, "192.0.2.9 eth0") != 1 || strings.Count(claims, "2001:db8::9 eth0") != 1 || strings.Contains(claims, "192.0.2.8") {
			t.Errorf("the claims after the change are\n%s\nwant one of each address that is here", claims)
		}
		pass(time.Minute)
		expect.Equal(t, "claims in the minute after the change", len(w.kernel.claims())-before, 8)
	})
}
