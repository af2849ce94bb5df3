package gossip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/testing/expect"
)

func TestAnAgentThatLeavesIsNotDead(t *testing.T) {
	inCluster(t, 4, func(c *cluster) {
		c.pass(5 * time.Second)
		expect.NoError(t, c.agents[3].Leave(c.t.Context()))
		c.pass(4 * (Timing{}).withDefaults().Beat)
		const want = "node-000 alive, node-001 alive, node-002 alive, node-003 left"
		c.expect("at once", want)
		c.agents[3].Publish(election.Record{Draining: true})
		c.pass(time.Second)
		c.expect("after later packets of the agent that left", want)
		c.powerOff(3)
		c.pass(5 * time.Second)
		c.expect("when the agent is silent", want)
		c.start("node-003", 3, nil)
		c.pass(5 * time.Second)
		c.expect("when the next agent has joined", "node-000 alive, node-001 alive, node-002 alive, node-003 alive")
	})
}

func TestSeparatedHalvesJoinAgain(t *testing.T) {
	for _, tt := range []struct{ cut, joins time.Duration }{{1100 * time.Millisecond, 500 * time.Millisecond}, {5 * time.Minute, 5 * time.Second}} {
		inCluster(t, 6, func(c *cluster) {
			c.pass(5 * time.Second)
			for _, a := range c.agents[3:] {
				a.port.putOnSide(1)
			}
			c.pass(tt.cut)
			for i, want := range []string{
				"node-000 alive, node-001 alive, node-002 alive, node-003 dead, node-004 dead, node-005 dead",
				"node-000 dead, node-001 dead, node-002 dead, node-003 alive, node-004 alive, node-005 alive",
			} {
				for _, a := range c.agents[3*i : 3*i+3] {
					expect.Equal(t, fmt.Sprintf("the view of %s after %v", a.self.node, tt.cut), a.view(), want)
				}
			}
			for _, a := range c.agents {
				a.port.putOnSide(0)
			}
			c.pass(tt.joins)
			c.expect("after the end of the cut", "node-000 alive, node-001 alive, node-002 alive, node-003 alive, node-004 alive, node-005 alive")
		})
	}
}

func TestAnAgentThatWasAloneAcceptsMessagesAtOnce(t *testing.T) {
	inCluster(t, 2, func(c *cluster) {
		a, b := c.agents[0], c.agents[1]
		c.pass(5 * time.Second)
		b.port.putOnSide(1)
		c.pass(3 * time.Second)
		b.port.putOnSide(0)
		for a.view() != "node-000 alive, node-001 alive" || b.view() != a.view() {
			c.pass(time.Millisecond)
		}
		for from, to := range map[*agent]string{a: "node-001", b: "node-000"} {
			if err := from.Send(c.t.Context(), to, []byte("take")); err != nil {
				t.Error(err)
			}
		}
		c.pass(100 * time.Millisecond)
		if len(a.got) != 1 || len(b.got) != 1 {
			t.Errorf("the agents received %q and %q, and dropped %d and %d messages as stale", a.got, b.got, a.Health().StaleMessages.Load(), b.Health().StaleMessages.Load())
		}
	})
}

func TestAPublishedRecordReachesAllMembers(t *testing.T) {
	inCluster(t, 30, func(c *cluster) {
		c.agents[4].Publish(election.Record{Subnets: prefixes("192.0.2.0/24")})
		c.pass(20 * time.Second)
		for _, r := range []election.Record{
			{Subnets: prefixes("192.0.2.0/24")},
			{Subnets: prefixes("192.0.2.0/24", "2001:db8::/64"), Own: addrs("192.0.2.4"), Draining: true},
			{},
		} {
			c.agents[4].Publish(r)
			c.pass(6 * (Timing{}).withDefaults().Beat)
			for _, a := range c.agents {
				expect.Equal(t, "the record that "+a.self.node+" knows", show(a.Members()[4].Record), show(r))
			}
		}
	})
}

func TestTwoAgentsOfOneNodeDoNotMakeItFlap(t *testing.T) {
	inCluster(t, 4, func(c *cluster) {
		c.pass(5 * time.Second)
		since := c.agents[0].Members()[3].Since
		newer := c.start("node-003", 9, nil)
		newer.Publish(election.Record{Draining: true})
		c.pass(10 * time.Second)
		for _, a := range c.agents {
			if m := a.Members()[3]; m.Instance != newer.self.instance || m.Address != newer.port.addr || !m.Draining {
				t.Errorf("%s does not know the newer agent: %+v", a.self.node, m)
			}
		}
		c.powerOff(3)
		c.pass(10 * time.Second)
		if m := c.agents[0].Members()[3]; m.State != election.Alive || m.Since != since {
			t.Errorf("the end of the older agent changed the node: %+v", m)
		}
		expect.Equal(t, "nodes seen as dead", c.wronged(), 0)
	})
}

func TestAMessageReachesTheAgentOfANode(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.pass(5 * time.Second)
		a, b := c.agents[0], c.agents[1]
		large := string(bytes.Repeat([]byte("x"), MaxMessage))
		for _, message := range []string{"take", large} {
			c.pass(time.Minute)
			if err := a.Send(c.t.Context(), "node-001", []byte(message)); err != nil {
				t.Error(err)
			}
		}
		c.pass(time.Second)
		if len(b.got) != 2 || b.got[0] != "node-000: take" || b.got[1] != "node-000: "+large {
			t.Errorf("the agent received %d messages, want two: %.40q", len(b.got), b.got)
		}
		if err := a.Send(c.t.Context(), "node-001", []byte(large+"x")); err == nil {
			t.Error("a message that is too long is sent")
		}
		if err := a.Send(c.t.Context(), "node-009", nil); err == nil {
			t.Error("a message to an unknown node is sent")
		}
		b.port.powerOff()
		start := time.Now()
		ctx, cancel := context.WithTimeout(c.t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := a.Send(ctx, "node-001", nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 100*time.Millisecond {
			t.Errorf("after %v, sending to a dead node returns %v", time.Since(start), err)
		}
	})
}
