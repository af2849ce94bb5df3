package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"purelb.io/purelb/lab/probe"
)

// Promise: routers stop sending to a node before its orderly end. With graceful restart, they keep
// its routes only when its speaker restarts. The agent and the speaker of a node find out in one way why
// they end. The scenes of ends_test.go show that they find out each cause.

// withdrawn is the time for which routers may send to a node after SIGTERM. If they kept its routes
// for a graceful restart, they would send for a minute.
const withdrawn = 20 * time.Second

// mostLost is the percentage of the clients' datagrams that an orderly end may cost.
const mostLost = 0.1

// flows is the number of sockets for each address. The router spreads them over the nodes.
const flows = 8

// spray sends datagrams to addresses from many sockets, every 10 ms from each socket.
type spray struct {
	*world
	probes []*probe.Probe
}

func (w *world) spray(addresses []netip.Addr) *spray {
	w.t.Helper()
	s := &spray{world: w}
	for _, a := range addresses {
		for range flows {
			p, err := probe.Start(w.ctx, lab.Netns("client"), netip.AddrPortFrom(a, 82), 10*time.Millisecond)
			if err != nil {
				w.t.Fatal(err)
			}
			s.probes = append(s.probes, p)
		}
	}
	w.until(patience, "the probes are under way", func() bool {
		return !slices.ContainsFunc(s.probes, func(p *probe.Probe) bool { return p.Sent() < 100 })
	})
	return s
}

// lost returns the number of datagrams without an answer, and the number of sent datagrams.
func (s *spray) lost() (lost, sent int) {
	s.t.Helper()
	for _, p := range s.probes {
		r := p.Stop()
		lost, sent = lost+r.Lost(), sent+r.Sent
		if r.Lost() > 0 {
			s.t.Logf("a client lost datagrams: %s", r)
		}
	}
	return lost, sent
}

// complain fails the test if the end cost more than mostLost.
func (s *spray) complain(what string) {
	s.t.Helper()
	if lost, sent := s.lost(); percent(lost, sent) > mostLost {
		s.t.Errorf("%s: %d of %d datagrams have no answer", what, lost, sent)
	}
}

func percent(part, all int) float64 { return 100 * float64(part) / float64(all) }

// leave waits until the router sends packets for none of the addresses to the node. It fails the
// test if that takes too long after the SIGTERM at told.
func (f followed) leave(node string, told time.Time, addresses []netip.Addr) {
	f.t.Helper()
	for _, a := range addresses {
		var at time.Time
		f.until(patience, fmt.Sprintf("the router does not send %s to %s", a, node), func() (gone bool) {
			at, gone = f.without(a, hop(f.world, node, a))
			return gone
		})
		f.t.Logf("the router sent %s to %s for %s", a, node, at.Sub(told))
		if at.Sub(told) > withdrawn {
			f.t.Errorf("the router sent %s to %s for %s after SIGTERM, which is too long", a, node, at.Sub(told))
		}
	}
}

// powerOffAfterShutdown cuts the power of a node that has been shut down. It checks the loss, and
// then boots the node.
func (s *spray) powerOffAfterShutdown(node string, addresses []netip.Addr) {
	s.t.Helper()
	s.crash(node)
	time.Sleep(3 * time.Second) // a router that still sends to the node loses probes in this time
	s.complain("shutdown and power cut")
	lab.boot(s.t, node)
	s.agentReady(node)
	s.everywhere(addresses...)
}

func TestRoutersLeaveANodeThatIsRebooted(t *testing.T) {
	w := newWorld(t)
	w.sessions()
	addresses := w.remote()
	f, s := w.followRoutes(), w.spray(addresses)
	w.endPrograms("node-3")
	f.leave("node-3", time.Now(), addresses)
	s.powerOffAfterShutdown("node-3", addresses)
}

// BenchmarkBGPReboot measures the loss of clients of remote addresses in the minute of a reboot. The
// programs of the node get SIGTERM, and its power goes 20 s later.
func BenchmarkBGPReboot(b *testing.B) {
	w := newWorldFor(b, time.Hour)
	w.sessions()
	addresses := w.remote()
	for b.Loop() {
		var worst float64
		for _, node := range nodeNames()[1:] { // the first node has the server
			s, began := w.spray(addresses), time.Now()
			w.endPrograms(node)
			time.Sleep(unmounting)
			w.crash(node)
			time.Sleep(time.Minute - time.Since(began))
			lost, sent := s.lost()
			b.Logf("reboot of %s: %d of %d lost", node, lost, sent)
			worst = max(worst, percent(lost, sent))
			lab.boot(b, node)
			w.agentReady(node)
			w.everywhere(addresses...)
		}
		fmt.Printf("RESULT bgp_reboot_lost_percent %.3f %%\n", worst)
	}
}

// BenchmarkBGPRollout measures the loss of clients of remote addresses during a rollout of all agents
// and speakers.
func BenchmarkBGPRollout(b *testing.B) {
	w := newWorldFor(b, time.Hour)
	w.sessions()
	addresses := w.remote()
	for b.Loop() {
		s, had := w.spray(addresses), w.told()
		w.rollOutAgents()()
		for _, n := range slices.Sorted(slices.Values(nodeNames())) {
			w.again(n, had[n])
		}
		lost, sent := s.lost()
		b.Logf("rollout: %d of %d lost", lost, sent)
		fmt.Printf("RESULT bgp_rollout_lost %d datagrams\n", lost)
	}
}
