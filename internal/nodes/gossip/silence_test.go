package gossip

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/testing/expect"
)

// A probe that fails has helpers and a stream, and the suspected node refutes.
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
			if seen, ok := a.saw(dead.self.node, Dead); !ok || seen.Sub(at) > mostDetect+100*time.Millisecond {
				t.Errorf("%s detects the death after %v, %t", a.self.node, seen.Sub(at), ok)
			}
		}
	})
}

func TestOneDeafPeerKillsNoPeer(t *testing.T) {
	for _, eachOther := range []bool{false, true} {
		inCluster(t, 8, func(c *cluster) {
			c.pass(5 * time.Second)
			a, b := c.agents[0].port, c.agents[1].port
			c.ether.mute(a, b)
			if eachOther {
				c.ether.mute(b, a)
			}
			c.pass(30 * time.Second)
			expect.Equal(t, fmt.Sprintf("live nodes seen as dead, deaf in both directions %t", eachOther), c.wronged(), 0)
		})
	}
}

func TestAnIsolatedNodeSendsFewPackets(t *testing.T) {
	inCluster(t, 20, func(c *cluster) {
		c.pass(5 * time.Second)
		alone := c.agents[7]
		alone.port.putOnSide(1)
		c.pass(3 * time.Second)
		expect.Equal(t, "nodes that the isolated node misses", strings.Count(alone.view(), "dead"), 19)
		before := alone.Health().PacketsOut
		const seconds = 20
		c.pass(seconds * time.Second)
		if each, most := float64(alone.Health().PacketsOut-before)/seconds, 2*listeners/(Timing{}).withDefaults().Spread.Seconds(); each > most {
			t.Errorf("the isolated node sends %.0f packets a second", each)
		}
		alone.port.putOnSide(0)
		c.pass(15 * time.Second)
		for _, a := range c.agents {
			for _, m := range a.Members() {
				expect.Equal(t, "the state of "+m.Node+" for "+a.self.node, m.State, Alive)
			}
		}
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
		for range 30 {
			for range 10 {
				p := recorded[rand.IntN(len(recorded))]
				for _, a := range c.agents {
					a.port.deliver(bytes.Clone(p), victim.port)
				}
			}
			c.pass(50 * time.Millisecond)
		}
		c.expect("after replayed packets", "node-000 alive, node-001 alive, node-002 dead")
	})
}
