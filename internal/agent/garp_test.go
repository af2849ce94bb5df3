package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	v2 "purelb.io/purelb/api/purelb/v2"
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
			if got := strings.Count(claims, wanted.text); got != wanted.n {
				t.Errorf("%d claims with %q, want %d, in\n%s", got, wanted.text, wanted.n, claims)
			}
		}
		if sent := testutil.ToFloat64(w.metrics.garpSent); sent != 3 {
			t.Errorf("garp_sent_total is %v, want 3", sent)
		}
		if sent := testutil.ToFloat64(w.metrics.naSent); sent != 2 {
			t.Errorf("na_sent_total is %v, want 2", sent)
		}
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
		if now := w.slots("web"); !strings.Contains(now, "node-a,eth0,192.0.2.9") {
			t.Errorf("the slots are %s, want that of node-a", now)
		}
	})
}

func TestNoClaimsWhenTheyAreDisabled(t *testing.T) {
	off := false
	inWorld(t, func(w *world) {
		w.cluster.snapshot.Agents = []v2.LBNodeAgent{lbNodeAgent("default", v2.InterfaceSpec{GARPConfig: &v2.GARPConfig{Enabled: &off}})}
	}, func(w *world) {
		w.cluster.change(serving(branded("web", "192.0.2.9", "2001:db8::9")))
		pass(10 * time.Second)
		if claims := w.kernel.claims(); len(claims) > 0 {
			t.Errorf("the agent sent %v, want no claims", claims)
		}
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
		if n := len(w.kernel.claims()) - before; n != 8 {
			t.Errorf("%d claims in the minute after the change, want 8", n)
		}
	})
}
