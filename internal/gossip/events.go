package gossip

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// delegate is Gossip as the library calls it: with the library's lock held.
type delegate Gossip

// NodeMeta returns what the others are told of this node.
func (d *delegate) NodeMeta(int) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.meta
}

// NotifyMsg gets what another has Sent.
func (d *delegate) NotifyMsg(envelope []byte) { (*Gossip)(d).receive(envelope) }

// GetBroadcasts returns nothing: what we tell everybody is in the record.
func (d *delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState returns nothing: all that is compared is in the records.
func (d *delegate) LocalState(bool) []byte { return nil }

// MergeRemoteState ignores what LocalState does not send.
func (d *delegate) MergeRemoteState([]byte, bool) {}

// NotifyAlive refuses members that are no node agents.
func (d *delegate) NotifyAlive(n *memberlist.Node) error {
	if _, err := parseIdentity(n.Name); err != nil {
		d.counts.badRecord.Add(1)
		return err
	}
	if _, ok := netip.AddrFromSlice(n.Addr); !ok {
		d.counts.badRecord.Add(1)
		return fmt.Errorf("%s has an address of %d bytes", n.Name, len(n.Addr))
	}
	return nil
}

// NotifyJoin gets a member that is alive and was not.
func (d *delegate) NotifyJoin(n *memberlist.Node) {
	(*Gossip)(d).heard(n)
}

// NotifyUpdate gets a member that says something new.
func (d *delegate) NotifyUpdate(n *memberlist.Node) { (*Gossip)(d).heard(n) }

// NotifyLeave gets a member that is not alive any more.
func (d *delegate) NotifyLeave(n *memberlist.Node) {
	(*Gossip)(d).lost(n)
}

func (g *Gossip) heard(n *memberlist.Node) {
	id, err := parseIdentity(n.Name)
	if err != nil {
		return // NotifyAlive has refused it
	}
	addr, _ := netip.AddrFromSlice(n.Addr)
	says := g.read(id, n.Meta)
	g.pending.note()
	g.update(id.node, func(now time.Time) bool {
		return g.table.hear(id, netip.AddrPortFrom(addr.Unmap(), n.Port), says, now)
	})
	g.slowLibrary()
}

// read returns what id says. What is not understood still proves that it lives: what
// it says is in its Lease, and its death is found by the library.
func (g *Gossip) read(id identity, meta []byte) said {
	says, err := decode(meta)
	switch {
	case errors.Is(err, errLaterRecord):
		g.strangers.noteNode(id.node, "record", meta[0])
		return said{Record: Record{Truncated: true}, version: g.versions.max}
	case err != nil:
		g.counts.badRecord.Add(1)
		g.opt.Log.Debug("record of a peer not understood", "node", id.node, "error", err)
		return said{Record: Record{Truncated: true}, version: g.versions.max}
	}
	if says.version = g.versions.common(says.versions); says.version == 0 {
		g.strangers.noteNode(id.node, "record", says.versions.min)
	}
	return says
}

// lost notes that the library does not hear n any more.
func (g *Gossip) lost(n *memberlist.Node) {
	id, err := parseIdentity(n.Name)
	if err != nil || id == g.self {
		return
	}
	g.pending.note()
	g.slowLibrary()
	g.update(id.node, func(now time.Time) bool {
		return g.table.lose(id, now.Add(g.opt.Timing.Silence), now)
	})
	poke(g.suspected)
	poke(g.shifted)
}

// update changes the table, and tells what that changes of node.
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

// shift tells that Members has changed.
func (g *Gossip) shift() {
	poke(g.changed)
	poke(g.shifted)
}

// tell logs and counts that m has come or gone.
func (g *Gossip) tell(m Member) {
	if m.State == Dead {
		g.counts.losses.Add(1)
	}
	g.opt.Log.Info("peer is "+m.State.String(), "node", m.Node, "peer", m.Address)
}

// errAway is for what needs Run to run.
var errAway = errors.New("gossip does not run")
