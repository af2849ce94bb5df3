package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/probe"
)

// Promise: routers learn by BGP which nodes carry a remote address, and remove a node that is gone. A
// restart of a program changes no route.

func TestServicesThatShareAnAddressHaveOneRoute(t *testing.T) {
	w := newWorld(t)
	sharing := func(name string, port int) string {
		return plain(name, port, "purelb.io/service-group: remote, purelb.io/allow-shared-ip: together")
	}
	w.apply(echo("web", 1), sharing("one", 80), sharing("two", 81))
	a := w.addresses("one", 1)
	if b := w.addresses("two", 1); !equal(a, b) {
		t.Fatalf("the Services have %v and %v, want the same addresses", a, b)
	}
	w.routes(a...)
	f := w.followRoutes()
	w.remove(sharing("two", 81))
	w.answers(a...)
	f.nothing(a...)
	w.remove(sharing("one", 80))
	w.until(patience, "the route is gone", func() bool { return len(w.nextHops(host(a[0]))) == 0 })
}

// byBFD is the time for which a router may send to a dead node with BFD: 0.9 s and the time of the
// router itself. It is less than 6 s, which is the shortest time of the hold timer.
const byBFD = 5 * time.Second

// dies cuts the power of a node. It waits until the router sends no packets for the addresses to the
// node, and returns that time. It fails the test if the time is longer than limit.
func (w *world) dies(node string, addresses []netip.Addr, limit time.Duration) time.Duration {
	w.t.Helper()
	f := w.followRoutes()
	began := time.Now()
	w.crash(node)
	w.t.Cleanup(func() { lab.boot(w.t, node) })
	var longest time.Duration
	for _, a := range addresses {
		w.until(patience, fmt.Sprintf("the router does not send %s to %s", a, node), func() bool {
			at, ok := f.without(a, hop(w, node, a))
			longest = max(longest, at.Sub(began))
			return ok
		})
	}
	if longest > limit {
		w.t.Errorf("the router sent to %s for %s after the power cut, want at most %s", node, longest, limit)
	}
	return longest
}

// remote makes a Service with remote addresses and a server on node-1. It waits until the client
// reaches the Service.
func (w *world) remote() []netip.Addr {
	w.t.Helper()
	w.apply(echo("web", 1, "node-1"), service("web", "remote"))
	addresses := w.addresses("web", families())
	w.everywhere(addresses...)
	w.answers(addresses...)
	return addresses
}

func TestBFDRemovesANodeWithoutPower(t *testing.T) {
	w := newWorld(t)
	w.sessions()
	w.detects()
	addresses := w.remote()
	t.Logf("gone after %v", w.dies("node-3", addresses, byBFD))
	w.answers(addresses...)
	lab.boot(t, "node-3")
	w.agentReady("node-3")
	w.everywhere(addresses...)
}

// losesNothing fails the test if a route to the addresses changed, or if the client lost packets.
func (f followed) losesNothing(client *probe.Probe, addresses []netip.Addr) {
	f.t.Helper()
	time.Sleep(3 * time.Second) // a late loss counts too
	f.nothing(addresses...)
	if r := client.Stop(); r.Lost() > 0 {
		f.t.Errorf("the client lost packets: %s", r)
	}
}

func TestAKilledSpeakerLosesNoRouteAndNoPacket(t *testing.T) {
	w := newWorld(t)
	w.sessions()
	addresses := w.remote()
	f, client, had := w.followRoutes(), w.probe(addresses[0]), w.told()["node-2"]
	w.killSpeaker("node-2")
	w.again("node-2", had)
	f.losesNothing(client, addresses)
}

func (w *world) killSpeaker(node string) {
	w.t.Helper()
	if !w.killProcess("k8gobgp", "NODE_NAME="+node) {
		w.t.Fatalf("there is no speaker on %s to kill", node)
	}
}

func TestARolloutLosesNoRouteAndNoPacket(t *testing.T) {
	w := newWorld(t)
	w.sessions()
	addresses := w.remote()
	f, client, had := w.followRoutes(), w.probe(addresses[0]), w.told()
	w.rollOutAgents()()
	for _, n := range nodeNames() {
		w.again(n, had[n])
	}
	f.losesNothing(client, addresses)
}

// GoBGP changes no global option, so each speaker begins again, in its container.
func TestAnotherBGPServerLosesNoRouteAndNoPacket(t *testing.T) {
	w := newWorldFor(t, 5*time.Minute)
	w.sessions()
	addresses := w.remote()
	f, client, had, starts := w.followRoutes(), w.probe(addresses[0]), w.told(), map[string]int32{}
	for _, n := range nodeNames() {
		starts[n] = w.restarts(n)
	}
	w.apply(strings.Replace(peering(withBFD), "{asn: 64515,", "{asn: 64515, listenPort: 1179,", 1))
	t.Cleanup(func() {
		had := w.told()
		w.apply(peering(withBFD))
		for _, n := range nodeNames() {
			w.again(n, had[n])
		}
	})
	for _, n := range nodeNames() {
		w.again(n, had[n])
	}
	f.losesNothing(client, addresses)
	for n, before := range starts {
		if now := w.restarts(n); now != before {
			t.Errorf("the kubelet started containers of %s %d times again", n, now-before)
		}
	}
}

func TestBGPWorksWithoutTheAPIServer(t *testing.T) {
	w := newWorld(t)
	w.sessions()
	w.detects()
	addresses := w.remote()
	f, had := w.followRoutes(), w.told()["node-2"]
	resume := w.hang()
	time.Sleep(10 * time.Second) // time for every program to notice the outage
	w.killSpeaker("node-2")
	w.again("node-2", had)
	time.Sleep(3 * time.Second) // time for late changes
	f.nothing(addresses...)
	for _, a := range addresses {
		if err := w.visit(netip.AddrPortFrom(a, 80), 20); err != nil {
			t.Errorf("%s without the API server: %v", a, err)
		}
	}
	t.Logf("gone after %v", w.dies("node-3", addresses, byBFD))
	resume()
	lab.boot(t, "node-3")
	w.freshAllocator() // the old one ended when it could not renew its Lease
	w.agentReady("node-3")
	w.everywhere(addresses...)
}

func TestAnExcludedNodeIsNoNextHopAndLosesNothing(t *testing.T) {
	w := newWorld(t)
	w.sessions()
	addresses := w.remote()
	probe := w.probe(addresses[0])
	include := w.exclude("node-2")
	for _, a := range addresses {
		w.until(patience, "the router does not send "+a.String()+" to node-2", func() bool {
			return !slices.Contains(w.nextHops(host(a)), "node-2")
		})
	}
	// The router prefers the other nodes at once. Then the node withdraws its routes.
	w.until(patience, "node-2 is healthy without routes", func() bool {
		status := w.nodeStatus("node-2")
		return status["healthy"] == true && strings.Contains(fmt.Sprint(status["conditions"]), "all routes are withdrawn: label "+excluded)
	})
	include()
	w.everywhere(addresses...)
	if r := probe.Stop(); r.Lost() > 0 {
		t.Errorf("the client lost packets: %s", r)
	}
}

func TestTheStatusOfANodeShowsItsSessions(t *testing.T) {
	w := newWorld(t)
	w.sessions()
	w.detects()
	healthy := func(want bool) {
		t.Helper()
		for _, n := range nodeNames() {
			w.until(patience, fmt.Sprintf("the status of %s says that BGP is healthy: %t", n, want), func() bool {
				status := w.nodeStatus(n)
				return status != nil && status["healthy"] == want
			})
		}
	}
	healthy(true)
	for n, want := range map[string]string{"node-1": "172.30.250.1 Established Up", "node-4": "172.30.251.1 Established Up"} {
		w.until(patience, n+" says "+want, func() bool { return w.neighborOf(n) == want })
	}
	hang := func(sig syscall.Signal) {
		if err := lab.Signal(cluster.Router, "bgpd", sig); err != nil {
			t.Error(err)
		}
	}
	hang(syscall.SIGSTOP)
	t.Cleanup(func() { hang(syscall.SIGCONT) })
	healthy(false)
	hang(syscall.SIGCONT)
	healthy(true)
}
