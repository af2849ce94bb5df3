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

// retryGossip is the pause after gossip ended or could not start.
const retryGossip = 10 * time.Second

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
		}
	}
}
