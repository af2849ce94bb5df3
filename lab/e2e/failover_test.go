package e2e

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/internal/wire"
)

// Promise: when agents, nodes or the API server fail, one node still answers for each local address.
// If that node fails, another node answers soon.

func TestAnAgentThatIsKilledLosesNothing(t *testing.T) {
	w := newWorld(t)
	s := watchLocal(w)
	holder := s.holder()
	s.begin()
	w.killAgents(holder)()
	s.rest(patience)
	s.end(nothing)
	s.stays(holder)
}

func TestARolloutOfTheAgentsLosesNothing(t *testing.T) {
	w := newWorld(t)
	s := watchLocal(w)
	holder := s.holder()
	s.begin()
	w.rollOutAgents()()
	s.rest(patience)
	s.end(nothing)
	s.stays(holder)
}

func TestADrainMovesAddressesWithoutAGap(t *testing.T) {
	w := newWorld(t)
	s := watchLocal(w)
	holder := s.holder()
	s.begin()
	include := w.exclude(holder)
	s.elsewhere(holder)
	include()
	s.rest(patience)
	s.end(convergence)
	s.elsewhere(holder) // a node that comes back takes no address
}

func TestFailoverTakesASecondWithoutTheAPIServer(t *testing.T) {
	w := newWorld(t)
	s := watchLocal(w)
	holder := s.holder()
	s.begin()
	resume := w.hang()
	time.Sleep(12 * time.Second) // longer than a Lease
	s.end(nothing)
	s.begin()
	w.crash(holder)
	s.elsewhere(holder)
	s.rest(patience)
	s.end(powerLoss)
	resume()
	// Boot the node before the allocator is replaced. For a moment no program knows that the node
	// is dead, so the scheduler could put the allocator's pod there.
	lab.boot(t, holder)
	w.freshAllocator() // the old allocator ended because it could not renew its Lease
	w.agentReady(holder)
	s.elsewhere(holder)
}

func TestBlockedGossipLosesNothing(t *testing.T) {
	w := newWorld(t)
	s := watchLocal(w)
	holder := s.holder()
	s.begin()
	for _, n := range lab.powered() {
		block(w, n)
	}
	time.Sleep(25 * time.Second) // longer than a Lease
	s.rest(patience)
	s.end(nothing)
	s.stays(holder)
}

func TestANetworkCardThatGoesDownHandsOver(t *testing.T) {
	w := newWorld(t)
	s := watchLocal(w)
	holder := s.holder()
	s.begin()
	plug := w.unplug(holder)
	s.until(patience, "the client gets answers again", func() bool {
		for _, a := range s.addresses {
			if w.visit(netip.AddrPortFrom(a, 80), 3) != nil {
				return false
			}
		}
		return true
	})
	plug()
	s.rest(patience)
	s.end(unpluggedLoss)
	s.elsewhere(holder)
	w.answers(s.addresses...)
}

func TestAForeignHostWithAnAddressIsReported(t *testing.T) {
	w := newWorld(t)
	s := watchLocal(w)
	v4 := s.addresses[slices.IndexFunc(s.addresses, netip.Addr.Is4)]
	nic, mac := stranger(w, v4)
	w.expect("addressConflict")
	w.exec(cluster.Router, "ip address add "+host(v4).String()+" dev "+nic)
	t.Cleanup(func() { w.exec(cluster.Router, "ip address delete "+host(v4).String()+" dev "+nic) })
	// A packet to an unknown neighbor makes the host send an ARP request. The sender of the request
	// is the address.
	claims := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(v4, 0))}
	conn, err := wire.Dial(w.ctx, lab.Netns(cluster.Router), claims, "udp", "172.30.250.99:9")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	w.says("web", "AddressConflict", mac)
	if holders := s.holders(v4); len(holders) != 1 {
		t.Errorf("a foreign host claims %s, and the address is on %v", v4, holders)
	}
}

// stranger returns the interface of the router on the segment of a, and its MAC. For the cluster, the
// router is a foreign host.
func stranger(w *world, a netip.Addr) (nic, mac string) {
	w.t.Helper()
	m, err := lab.Machine("router")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, n := range m.NICs {
		if n.V4.Masked().Contains(a) {
			return n.Name, n.MAC().String()
		}
	}
	w.t.Fatalf("the router is not on the segment of %s", a)
	return "", ""
}
