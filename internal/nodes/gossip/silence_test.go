package gossip

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/nodes/detector"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/testing/expect"
)

// Nearly always, at least one of the three watchers of a node gets a packet of the node, or the node
// gets a packet of that watcher.
func TestPacketLossKillsNoNode(t *testing.T) {
	inCluster(t, 6, func(c *cluster) {
		c.pass(5 * time.Second)
		c.ether.lose(2)
		c.pass(2 * time.Minute)
		expect.Equal(t, "live nodes seen as dead with every fiftieth packet lost", c.wronged(), 0)
		at := time.Now()
		dead := c.powerOff(2)
		c.pass(time.Second)
		for _, a := range c.agents {
			if seen, ok := a.saw(dead.self.node, election.Dead); !ok || seen.Sub(at) > mostDetect+100*time.Millisecond {
				t.Errorf("%s detects the death after %v, %t", a.self.node, seen.Sub(at), ok)
			}
		}
	})
}

func TestOneDeafWatcherKillsNoPeer(t *testing.T) {
	for _, eachOther := range []bool{false, true} {
		inCluster(t, 8, func(c *cluster) {
			c.pass(5 * time.Second)
			watched := c.agents[0]
			watcher := c.agentOf(watched.ringOf().WatchersOf(watched.self.peerID())[0])
			c.ether.mute(watched.port, watcher.port)
			if eachOther {
				c.ether.mute(watcher.port, watched.port)
			}
			c.pass(30 * time.Second)
			if n := c.wronged(); n > 0 || watcher.Health().Missed.Load() == 0 {
				t.Errorf("deaf in both directions %t: the peer was seen as dead %d times, and missed %d times", eachOther, n, watcher.Health().Missed.Load())
			}
		})
	}
}

func TestAnIsolatedNodeSendsFewPackets(t *testing.T) {
	inCluster(t, 20, func(c *cluster) {
		c.pass(5 * time.Second)
		alone := c.agents[7]
		alone.port.putOnSide(1)
		c.pass(2 * time.Second)
		expect.Equal(t, "nodes that the isolated node misses", strings.Count(alone.view(), "dead"), 19)
		before := alone.Health().PacketsOut.Load()
		const seconds = 20
		c.pass(seconds * time.Second)
		timing := (Timing{}).withDefaults()
		if each, most := float64(alone.Health().PacketsOut.Load()-before)/seconds, 2*detector.Reach/timing.Beat.Seconds(); each > most {
			t.Errorf("the isolated node sends %.0f packets a second", each)
		}
		alone.port.putOnSide(0)
		c.pass(15 * time.Second)
		for _, a := range c.agents {
			for _, m := range a.Members() {
				expect.Equal(t, "the state of "+m.Node+" for "+a.self.node, m.State, election.Alive)
			}
		}
	})
}

func TestADeathWithAllWatchersIsDetected(t *testing.T) {
	inCluster(t, 8, func(c *cluster) {
		c.pass(10 * time.Second)
		first := c.agents[0]
		doomed := map[string]bool{first.self.node: true}
		for _, s := range first.ringOf().WatchersOf(first.self.peerID()) {
			doomed[c.agentOf(s).self.node] = true
		}
		for i := len(c.agents) - 1; i >= 0; i-- {
			if doomed[c.agents[i].self.node] {
				c.powerOff(i)
			}
		}
		c.pass(10 * time.Second)
		for _, a := range c.agents {
			for node := range doomed {
				if _, ok := a.saw(node, election.Dead); !ok {
					t.Errorf("%s does not detect that %s is dead", a.self.node, node)
				}
			}
		}
		expect.Equal(t, "live nodes seen as dead", c.wronged(), 0)
	})
}

func TestReplayedPacketsReviveNoDeadNode(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.pass(5 * time.Second)
		var recorded [][]byte
		victim := c.agents[2]
		victim.port.set(func() {
			victim.port.tap = func(_ *port, packet []byte) { recorded = append(recorded, packet) }
		})
		c.pass(2 * time.Second)
		c.powerOff(2)
		for i := range 60 {
			for range 10 {
				p := recorded[rand.IntN(len(recorded))]
				for _, a := range c.agents {
					a.port.deliver(bytes.Clone(p), victim.port)
				}
			}
			c.pass(50 * time.Millisecond)
			if i >= 30 {
				c.pass(5 * time.Second) // until the library has forgotten the dead node
			}
			if i > 10 {
				c.expect("while packets are replayed", "node-000 alive, node-001 alive, node-002 dead")
			}
		}
	})
}

// One node does not hear a peer. Other nodes may hear that peer, so it does not have to write its
// Lease.
func TestASingleSuspicionIsNotReported(t *testing.T) {
	var refuted uint64
	// The receiver watches some of the others. Which ones depends on chance.
	for i := 0; i < 6 || refuted == 0 && i < 60; i++ {
		inCluster(t, 6, func(c *cluster) {
			c.pass(5 * time.Second)
			peer := c.agents[i%6]
			if peer == c.agents[2] {
				return
			}
			c.ether.mute(peer.port, c.agents[2].port)
			c.pass(5 * time.Second)
			expect.Equal(t, fmt.Sprintf("suspicions of node %d by several peers", i), peer.Accused(), 0)
			refuted += peer.Health().Accused.Load()
		})
	}
	if refuted == 0 {
		t.Error("no node was suspected")
	}
}

// A node hears the other nodes, but they do not hear it. The node must learn that, because its Lease
// has to prove that it is alive.
func TestASuspectedNodeLearnsOfItsSuspicion(t *testing.T) {
	inCluster(t, 6, func(c *cluster) {
		c.pass(5 * time.Second)
		mute := c.agents[2]
		for _, a := range c.agents {
			if a != mute {
				c.ether.mute(mute.port, a.port)
			}
		}
		c.pass(2 * time.Second)
		if n := mute.Accused(); n == 0 {
			t.Error("the node does not learn of its suspicion")
		}
		expect.Equal(t, "suspicions of a node that is heard", c.agents[0].Accused(), 0)
	})
	g := lone(t, "node-a", nil)
	g.take(detector.Actions{Accused: 1, Corroborated: true}, nil, epoch)
	expect.Equal(t, "the signals of a suspicion", len(g.opt.Changed), 1)
}
