package e2e

import (
	"net/netip"
	"testing"
	"time"

	"purelb.io/purelb/lab/kube"
)

// Promise: agents and allocators come and go, nodes die, and the addresses
// stay, or come back, without anybody's help.

func TestAllocatorRestartKeepsEveryAddress(t *testing.T) {
	w := newWorld(t)
	names := []string{"one", "two", "three", "four"}
	for i, n := range names {
		w.apply(service(n, []string{"local", "remote"}[i%2]))
	}
	before := map[string][]netip.Addr{}
	for _, n := range names {
		before[n] = w.addresses(n, 2)
	}
	w.restartAllocator()
	w.apply(service("five", "local"))
	fresh := w.addresses("five", 2)
	for _, n := range names {
		after := kube.Addresses(w.service(n))
		if !equal(after, before[n]) {
			t.Errorf("%s had %v and has %v", n, before[n], after)
		}
		for _, a := range fresh {
			for _, b := range after {
				if a == b {
					t.Errorf("%s was given twice, to %s and to five", a, n)
				}
			}
		}
	}
}

func TestALocalAddressOfADeadNodeComesBackOnAnotherNodeOfItsSubnet(t *testing.T) {
	w := newWorld(t)
	// The servers are on the other subnet: Kubernetes goes on sending to pods
	// of a dead node for as long as it takes it for ready.
	w.apply(echo("web", 2, "node-3", "node-4"), service("web", "local"))
	addresses := w.addresses("web", 2)
	w.answers(addresses...)
	victim := w.holders(addresses[0])[0].node
	lab.crash(t, victim)
	t.Cleanup(func() { lab.boot(t, victim) })
	began := time.Now()
	for _, a := range addresses {
		w.until(60*time.Second, a.String()+" is on a node that lives", func() bool {
			for _, h := range w.holders(a) {
				if h.node != victim {
					return true
				}
			}
			return false
		})
	}
	t.Logf("addresses of %s came back on other nodes after %v", victim, time.Since(began).Round(100*time.Millisecond))
	w.answers(addresses...)

	lab.boot(t, victim)
	w.agentReady(victim)
	for _, a := range addresses {
		w.until(30*time.Second, "one node carries "+a.String(), func() bool { return len(w.holders(a)) == 1 })
		if h := w.holders(a)[0]; h.node == victim {
			t.Errorf("%s went back to %s: a returning node takes nothing", a, victim)
		}
	}
	w.answers(addresses...)
}
