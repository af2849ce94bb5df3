package gossip

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/testing/expect"
)

func TestKeyRotationLosesNoMember(t *testing.T) {
	inCluster(t, 4, func(c *cluster) {
		c.pass(5 * time.Second)
		for _, keys := range [][][]byte{{testKey, otherKey}, {otherKey, testKey}, {otherKey}} {
			for _, a := range c.agents {
				expect.NoError(t, a.SetKeys(keys))
				c.pass(time.Second)
			}
		}
		for _, keys := range [][][]byte{nil, {{}}, {testKey, []byte("short")}} {
			if err := c.agents[0].SetKeys(keys); err == nil {
				t.Errorf("the invalid keys %q are accepted", keys)
			}
		}
		c.pass(time.Minute)
		expect.Equal(t, "live nodes seen as dead", c.wronged(), 0)
		for _, a := range c.agents {
			expect.Equal(t, "packets lost", a.Health().BadKey.Load(), 0)
		}
		if _, err := c.agents[0].keys.openPacket(testKeys(t, testKey).sealPacket(nil)); err == nil {
			t.Error("the old key still opens packets")
		}
	})
}

func TestAnAgentWithAForeignKeyCannotJoin(t *testing.T) {
	inCluster(t, 2, func(c *cluster) {
		c.start("node-002", 2, func(o *Options) { o.Keys = [][]byte{otherKey} })
		c.pass(20 * time.Second)
		for i, want := range []string{"node-000 alive, node-001 alive", "node-000 alive, node-001 alive", "node-002 alive"} {
			expect.Equal(t, fmt.Sprintf("the view of node %d", i), c.agents[i].view(), want)
		}
		if c.agents[0].Health().BadKey.Load() == 0 {
			t.Error("the refused packets are not counted")
		}
	})
}

func TestSeedsAreReadUntilAPeerIsFound(t *testing.T) {
	inCluster(t, 0, func(c *cluster) {
		c.start("node-000", 0, func(o *Options) { o.Seeds = nil })
		var asked atomic.Int32
		var answers atomic.Bool
		late := c.start("node-001", 1, func(o *Options) {
			o.Seeds = func(ctx context.Context) []netip.AddrPort {
				asked.Add(1)
				if !answers.Load() {
					return nil
				}
				return c.seeds(ctx)
			}
		})
		c.pass(time.Minute)
		if late.view() != "node-001 alive" {
			t.Errorf("without seeds, the agent sees %s", late.view())
		}
		answers.Store(true)
		c.pass(2 * time.Minute)
		c.expect("with seeds", "node-000 alive, node-001 alive")
		before := asked.Load()
		c.pass(10 * time.Minute)
		if more := asked.Load() - before; more > 0 {
			t.Errorf("with all members, the seeds were read %d times", more)
		}
	})
}

func TestTheJoinerSleepsWhileNoMemberIsMissing(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		asleep := func() (n int) {
			for _, a := range c.agents {
				backoff.Poke(a.shifted) // the joiner reads it at once if it waits
			}
			synctest.Wait()
			for _, a := range c.agents {
				n += 1 - len(a.shifted)
			}
			return n
		}
		c.pass(time.Minute)
		expect.Equal(t, "joiners that sleep with all members", asleep(), 3)
		c.powerOff(0)
		c.pass(time.Minute)
		expect.Equal(t, "joiners that sleep with a missing member", asleep(), 0)
	})
}

func TestDeadNodesAreForgottenAfterAnHour(t *testing.T) {
	inCluster(t, 2, func(c *cluster) {
		c.pass(5 * time.Second)
		c.agents[1].Publish(election.Record{Subnets: prefixes("192.0.2.0/24")})
		c.pass(time.Second)
		c.powerOff(1)
		c.pass(50 * time.Minute)
		if m := c.agents[0].Members(); len(m) != 2 || m[1].State != election.Dead || len(m[1].Subnets) != 1 {
			t.Errorf("before an hour has passed, the members are %+v", m)
		}
		c.pass(15 * time.Minute)
		c.expect("after an hour", "node-000 alive")
	})
}

func TestInvalidPacketsAreIgnored(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.pass(5 * time.Second)
		victim, sender := c.agents[0], c.agents[1]
		sender.port.set(func() {
			sender.port.tap = func(to *port, packet []byte) {
				for i := range packet {
					spoilt := bytes.Clone(packet)
					spoilt[i] ^= 0xff
					to.deliver(spoilt, sender.port)
				}
				to.deliver(packet, sender.port)
				to.deliver(packet[:len(packet)/2], sender.port)
				to.deliver(bytes.Repeat(packet, 1000), sender.port)
				to.deliver(nil, sender.port)
			}
		})
		c.pass(200 * time.Millisecond)
		sender.port.set(func() { sender.port.tap = nil })
		for i := range 300 {
			sealed := victim.keys.sealPacket([]byte{byte(i), 0xff, byte(i * 7), byte(i * 31)})
			victim.port.deliver(sealed, sender.port)
		}
		c.pass(5 * time.Second)
		c.expect("after invalid packets", "node-000 alive, node-001 alive, node-002 alive")
		if h := victim.Health(); h.BadKey.Load() == 0 || h.BadFormat.Load() == 0 || h.Replayed.Load() == 0 {
			t.Errorf("the counters of refused packets are %+v", h)
		}
	})
}

func TestAFloodOfInvalidPacketsKillsNoMember(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.pass(5 * time.Second)
		victim, sender := c.agents[0], c.agents[1]
		junk := make([]byte, heartbeatSize)
		junk[0] = heartbeatFormat
		binary.BigEndian.PutUint16(junk[2:], hint(victim.self.peerID()))
		const packets, burst = 60_000, 300
		for range packets / burst {
			for range burst {
				victim.port.deliver(junk, sender.port)
			}
			c.pass(10 * time.Millisecond) // 30,000 packets in a second
		}
		c.pass(5 * time.Second)
		expect.Equal(t, "packets read", victim.Health().BadKey.Load(), packets)
		expect.Equal(t, "live nodes seen as dead", c.wronged(), 0)
		c.expect("after the flood", "node-000 alive, node-001 alive, node-002 alive")
	})
}

func TestAMemberWithALaterRecordIsAlive(t *testing.T) {
	inCluster(t, 2, func(c *cluster) {
		later := c.start("node-002", 2, nil)
		later.replace([]byte{99, 0, 1, 2, 3})
		c.pass(5 * time.Second)
		m := c.agents[0].Members()[2]
		if got := fmt.Sprint(m.State, m.Truncated); got != "alive true" || c.agents[0].Health().BadVersion.Load() == 0 {
			t.Errorf("%s is %s", m.Node, got)
		}
	})
}
