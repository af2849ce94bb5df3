package membership

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/nodes/gossip"
)

const (
	// retryGossip is the pause after gossip ended or could not start.
	retryGossip = 10 * time.Second
	// checkKeys is the interval at which the agent looks for packets with foreign keys.
	checkKeys = time.Minute
)

// expectGossip starts the time that gossip has to find the other nodes.
func (m *Membership) expectGossip(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mode.began = now
}

// relyOnLeases records that there is no gossip, so that the Leases alone count.
func (m *Membership) relyOnLeases() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mode.alone = true
	backoff.Poke(m.wake)
}

// talk runs gossip with the keys of the Secret until ctx is done.
func (m *Membership) talk(ctx context.Context) error {
	ring := newKeyring()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { m.gossipWith(ctx, ring) })
	wg.Go(func() { m.recalled(ctx, ring) })
	if !m.ready(ctx) {
		return nil
	}
	return m.watchKeys(ctx, ring)
}

// gossipWith runs gossip until ctx is done. It starts when there are keys and a record,
// because an empty record would tell the others that the node has no subnets. While the API
// server is away it starts without a record.
func (m *Membership) gossipWith(ctx context.Context, ring *keyring) {
	select {
	case <-ctx.Done():
		return
	case <-m.published:
	case <-m.recollect:
	}
	var last string
	for {
		select {
		case <-ctx.Done():
			return
		case <-ring.filled:
		}
		err := m.gossipOnce(ctx, ring)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errMoved):
			continue
		}
		m.relyOnLeases()
		if text := errorText(err); text != last {
			m.Log.WarnContext(ctx, "gossipEnded", "node", m.Lease.Node, "error", text)
			last = text
		}
		backoff.Sleep(ctx, retryGossip)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// errMoved means that this node has another gossip address now.
var errMoved = errors.New("the gossip address of this node changed")

// gossipOnce runs gossip until ctx is done, gossip fails, or the address of this node changes.
func (m *Membership) gossipOnce(ctx context.Context, ring *keyring) error {
	g, err := gossip.New(gossip.Options{
		Node: m.Lease.Node, Bind: m.place(), Keys: ring.keys(), Patience: m.Patience,
		Seeds: m.leases.Seeds, Timing: m.timing, Receive: m.receive, Changed: m.wake, Log: m.Log,
	})
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end(nil)
	wg.Go(func() { m.tend(ctx, g, ring, end) })
	m.beginGossip(g)
	defer m.endGossip()
	err = g.Run(ctx)
	if errors.Is(context.Cause(ctx), errMoved) {
		m.Log.InfoContext(ctx, "gossipMoves", "node", m.Lease.Node, "from", g.Address())
		return errMoved
	}
	return err
}

// place returns the gossip address of this node.
func (m *Membership) place() netip.AddrPort {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.record == nil {
		return m.Bind
	}
	return m.record.Gossip
}

// beginGossip makes g the gossip that Membership reads.
func (m *Membership) beginGossip(g *gossip.Gossip) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.record != nil {
		g.Publish(gossiped(*m.record))
		backoff.Poke(m.moved) // the address may have changed meanwhile
	}
	m.gossip, m.mode.alone, m.mode.began = g, false, time.Now()
	backoff.Poke(m.wake)
}

func (m *Membership) endGossip() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gossip = nil
	backoff.Poke(m.wake)
}

// tend reacts to changes of the keys and of the address of this node until ctx is done.
func (m *Membership) tend(ctx context.Context, g *gossip.Gossip, ring *keyring, end context.CancelCauseFunc) {
	tick := time.NewTicker(checkKeys)
	defer tick.Stop()
	var foreign foreignKeys
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.moved:
			if g.Address() != m.place() {
				end(errMoved)
			}
		case <-ring.changed:
			if err := g.SetKeys(ring.keys()); err != nil {
				m.Log.WarnContext(ctx, "gossipKeysNotUsed", "error", err)
			}
		case <-tick.C:
			if bad := g.Health().BadKey.Load(); foreign.appeared(bad) {
				m.Log.WarnContext(ctx, "gossipWithForeignKey", "node", m.Lease.Node, "packets", bad)
			}
		}
	}
}

// foreignKeys decides whether other agents use a foreign key. It counts the packets that no key
// of this agent opens. For some seconds after a restart, packets arrive that were signed for the
// previous process. With a foreign key such packets arrive all the time.
type foreignKeys struct {
	before           uint64
	growing, foreign bool
}

// appeared takes the current total of such packets. It reports whether there are foreign keys
// now and were none at the last call.
func (k *foreignKeys) appeared(packets uint64) bool {
	grows, was := packets > k.before, k.foreign
	k.foreign = grows && k.growing
	k.before, k.growing = packets, grows
	return k.foreign && !was
}
