package e2e

import (
	"net/netip"
	"testing"

	"purelb.io/purelb/lab/kube"
)

// Promise: when agents and allocators restart and nodes die, the addresses stay or come back
// automatically.

func TestAllocatorRestartKeepsEveryAddress(t *testing.T) {
	w := newWorld(t)
	names := []string{"one", "two", "three", "four"}
	for i, n := range names {
		w.apply(service(n, []string{"local", "remote"}[i%2]))
	}
	before := map[string][]netip.Addr{}
	for _, n := range names {
		before[n] = w.addresses(n, families())
	}
	w.restartAllocator()
	w.apply(service("five", "local"))
	fresh := w.addresses("five", families())
	for _, n := range names {
		after := kube.Addresses(w.service(n))
		if !equal(after, before[n]) {
			t.Errorf("%s had %v and has %v", n, before[n], after)
		}
		for _, a := range fresh {
			for _, b := range after {
				if a == b {
					t.Errorf("%s is assigned to two Services: %s and five", a, n)
				}
			}
		}
	}
}

func TestALocalAddressOfADeadNodeMovesWithinItsSubnet(t *testing.T) {
	w := newWorld(t)
	s := watchLocal(w)
	victim := s.holder()
	s.begin()
	w.crash(victim)
	t.Cleanup(func() { lab.boot(t, victim) })
	s.elsewhere(victim)
	s.rest(patience)
	s.end(powerLoss)
	w.answers(s.addresses...)

	s.beginStation()
	lab.boot(t, victim)
	w.agentReady(victim)
	s.rest(patience)
	s.endStation()
	s.elsewhere(victim) // a node that comes back takes no address
	w.answers(s.addresses...)
}
