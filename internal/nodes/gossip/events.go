package gossip

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/nodes/election"
)

// delegate implements the callbacks of the library. The library holds its own lock while it
// calls NotifyAlive, NotifyJoin, NotifyUpdate and NotifyLeave.
type delegate Gossip

// NodeMeta returns the encoded record that this node announces.
func (d *delegate) NodeMeta(int) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.meta
}

// NotifyMsg receives a message that another agent sent with Send.
func (d *delegate) NotifyMsg(envelope []byte) { (*Gossip)(d).receive(envelope) }

// GetBroadcasts returns nothing: the record carries all that this node tells every member.
func (d *delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState returns nothing: the records carry all state that members compare.
func (d *delegate) LocalState(bool) []byte { return nil }

// MergeRemoteState does nothing: LocalState sends nothing.
func (d *delegate) MergeRemoteState([]byte, bool) {}

// NotifyAlive refuses members that are not node agents.
func (d *delegate) NotifyAlive(n *memberlist.Node) error {
	if _, err := parseIdentity(n.Name); err != nil {
		d.counts.BadRecord.Add(1)
		return err
	}
	if _, ok := netip.AddrFromSlice(n.Addr); !ok {
		d.counts.BadRecord.Add(1)
		return fmt.Errorf("%s has an address of %d bytes", n.Name, len(n.Addr))
	}
	return nil
}

// NotifyJoin receives a member that is alive now and was not before.
func (d *delegate) NotifyJoin(n *memberlist.Node) {
	(*Gossip)(d).heard(n)
}

// NotifyUpdate receives a member whose record changed.
func (d *delegate) NotifyUpdate(n *memberlist.Node) { (*Gossip)(d).heard(n) }

// NotifyLeave receives a member that is not alive any more.
func (d *delegate) NotifyLeave(n *memberlist.Node) {
	(*Gossip)(d).lost(n)
}

func (g *Gossip) heard(n *memberlist.Node) {
	id, err := parseIdentity(n.Name)
	if err != nil {
		return // NotifyAlive has already refused such a name
	}
	addr, _ := netip.AddrFromSlice(n.Addr)
	says := g.read(id, n.Meta)
	g.pending.note()
	g.update(id.node, func(now time.Time) bool {
		return g.table.hear(id, netip.AddrPortFrom(addr.Unmap(), n.Port), says, now)
	})
}

// read decodes the record of id. A record that this process cannot decode still proves that
// id is alive. The Lease of the node then provides the contents, and the library detects
// the death of the process.
func (g *Gossip) read(id identity, meta []byte) said {
	says, err := decode(meta)
	switch {
	case errors.Is(err, errLaterRecord):
		g.strangers.note(id.node, "record", meta[0])
		return said{Record: election.Record{Truncated: true}, version: g.versions.max}
	case err != nil:
		g.counts.BadRecord.Add(1)
		g.opt.Log.Debug("record of a peer not understood", "node", id.node, "error", err)
		return said{Record: election.Record{Truncated: true}, version: g.versions.max}
	}
	if says.version = g.versions.common(says.versions); says.version == 0 {
		g.strangers.note(id.node, "record", says.versions.min)
	}
	return says
}

// lost records that the library does not hear n any more.
func (g *Gossip) lost(n *memberlist.Node) {
	id, err := parseIdentity(n.Name)
	if err != nil || id == g.self {
		return
	}
	g.pending.note()
	g.update(id.node, func(now time.Time) bool {
		return g.table.lose(id, now.Add(g.opt.Timing.Refutation), now)
	})
	backoff.Poke(g.shifted)
}

// update applies change to the table. It logs and signals a changed state of node.
func (g *Gossip) update(node string, change func(now time.Time) bool) {
	g.mu.Lock()
	old, known := g.table.nodes[node]
	changed := change(time.Now())
	m := g.table.nodes[node]
	g.mu.Unlock()
	switch {
	case !changed:
		return
	case known && old.State == m.State:
		g.opt.Log.Debug("peer says something new", "node", node, "record", m.Record)
	default:
		g.tell(m)
	}
	g.shift()
}

// shift signals that Members changed.
func (g *Gossip) shift() {
	backoff.Poke(g.opt.Changed)
	backoff.Poke(g.shifted)
}

// tell logs the new state of m, and counts m if it is dead.
func (g *Gossip) tell(m Member) {
	if m.State == election.Dead {
		g.counts.Losses.Add(1)
	}
	g.opt.Log.Info("peer is "+m.State.String(), "node", m.Node, "peer", m.Address)
}

// errAway is the error of calls that need a running Run.
var errAway = errors.New("gossip does not run")
