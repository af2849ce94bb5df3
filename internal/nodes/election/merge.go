package election

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Peers is what this node knows of all nodes, itself included, at one moment. It is
// immutable.
type Peers struct {
	// Members are the live nodes, sorted.
	Members []Member
	// Known are the subnets of all known nodes, dead or alive, sorted. An address
	// in one of them is a local address.
	Known []netip.Prefix
	// Own maps the own addresses of nodes, dead or alive, to the node. No other node may announce
	// such an address.
	Own map[netip.Addr]string
	// MACs maps the Ethernet addresses of nodes, dead or alive, to the node. They
	// distinguish the answer of a node from that of a foreign machine. An address that several
	// nodes claim is missing: at most one of these claims is true.
	MACs map[[6]byte]string
	// Trusted says that Members and Known lack only nodes that are gone. If it is
	// false, a missing node proves nothing: this node takes no new address, and
	// gives none up.
	Trusted bool
}

// Member returns the live node of this name.
func (p Peers) Member(node string) (m Member, lives bool) {
	i := slices.IndexFunc(p.Members, func(m Member) bool { return m.Node == node })
	if i < 0 {
		return Member{}, false
	}
	return p.Members[i], true
}

// Merge returns what e says about all nodes at the time now.
//
// A node that gossip hears is alive. If gossip lost a node but still hears most nodes, this node is
// not cut off, and the lost node is gone at once. If gossip lost most nodes at once, this node may
// be cut off itself. Then the Leases decide about each lost node, as soon as they can. Until then
// the lost nodes stay members, and keep the addresses that they hold. A node that renews its Lease
// after its loss is alive, although gossip does not reach it. For a node that never gossiped, its
// Lease decides. If this node has not seen a renewal of that Lease, the other node is a candidate
// only for the addresses that it holds.
//
// If Merge considers a live node dead, this alone does no harm: before a node takes an address, it
// asks the segment whether another machine answers for the address.
func Merge(e Evidence, now time.Time) Peers {
	c := newTally(e, now)
	p := Peers{Own: map[netip.Addr]string{}}
	p.MACs = c.macs()
	for _, node := range c.nodes() {
		r, known := c.record(node), c.lastKnown(node)
		p.Known = append(p.Known, known.Subnets...)
		for _, a := range known.Own {
			if _, taken := p.Own[a]; !taken {
				p.Own[a] = node // of several nodes, the first by name
			}
		}
		if c.stateOf(node) != gone {
			p.Members = append(p.Members, Member{
				Node: node, Subnets: r.Subnets, Eligible: true, Draining: r.Draining, Reachable: c.hears(node),
				Unproven: c.unproven(node), Unable: c.leases[node].Unable, Weights: c.leases[node].Weights, Unconfigured: c.leases[node].Unconfigured,
			})
		}
	}
	slices.SortFunc(p.Known, netip.Prefix.Compare)
	p.Known = slices.Compact(p.Known)

	certain := len(c.undecided) == 0 && c.heard+c.parted > 0
	p.Trusted = e.Settled && (e.LeasesTrusted || certain)
	return p
}

// macs returns the nodes by their Ethernet addresses. It leaves out those that several nodes claim.
func (c *tally) macs() map[[6]byte]string {
	macs, shared := map[[6]byte]string{}, map[[6]byte]bool{}
	for node, l := range c.leases {
		for _, mac := range l.MACs {
			other, claimed := macs[mac]
			shared[mac] = shared[mac] || claimed && other != node
			macs[mac] = node
		}
	}
	maps.DeleteFunc(macs, func(mac [6]byte, _ string) bool { return shared[mac] })
	return macs
}

// tally is an Evidence arranged for decisions.
type tally struct {
	Evidence
	gossip map[string]Gossiped
	leases map[string]Leased
	losses
	// parted counts the nodes that gossip remembers and that are gone. undecided
	// are nodes that gossip lost and that may be gone or not.
	parted    int
	undecided []Gossiped
}

func newTally(e Evidence, now time.Time) *tally {
	c := &tally{Evidence: e, gossip: map[string]Gossiped{}, leases: map[string]Leased{}, losses: lossesOf(e, now)}
	for _, l := range e.Leases {
		c.leases[l.Node] = l
	}
	for _, g := range e.Gossip {
		c.gossip[g.Node] = g
	}
	for _, g := range e.Gossip {
		switch c.stateOf(g.Node) {
		case gone:
			c.parted++
		case undecided:
			c.undecided = append(c.undecided, g)
		}
	}
	return c
}

// nodes returns all nodes in the evidence, sorted.
func (c *tally) nodes() []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(c.gossip)), maps.Keys(c.leases))
	slices.Sort(all)
	return slices.Compact(all)
}

// hears reports whether gossip reaches node.
func (c *tally) hears(node string) bool {
	g, ok := c.gossip[node]
	return ok && g.State == Alive
}

// nodeState is the decision about a node.
type nodeState int

const (
	alive nodeState = iota
	gone
	undecided
)

func (c *tally) stateOf(node string) nodeState {
	g, gossiped := c.gossip[node]
	l := c.leases[node]
	switch {
	case !gossiped && !l.Alive:
		return gone
	case !gossiped, node == c.Self, g.State == Alive, c.renewed(node):
		return alive
	case g.State == Left, c.believed(g.Since), c.LeasesTrusted && !l.Alive:
		return gone
	default:
		return undecided
	}
}

// unproven reports whether node is known only from a Lease of which this node has seen no renewal.
// Such a node may have been off for a long time. If gossip reaches no other node, a Lease with fast
// renewals is a sign of life, because it expires soon without a renewal.
func (c *tally) unproven(node string) bool {
	_, gossiped := c.gossip[node]
	l := c.leases[node]
	return !gossiped && node != c.Self && l.Renewed.IsZero() && (l.Slow || c.heard > 0)
}

// renewed reports whether node, which gossip does not hear, has renewed its Lease
// since gossip lost it.
func (c *tally) renewed(node string) bool {
	l := c.leases[node]
	return l.Alive && l.Renewed.After(c.gossip[node].Since.Add(Late))
}

// record returns the latest Record of node. If it is unclear which one is the
// latest, it merges them.
func (c *tally) record(node string) Record {
	g, gossiped := c.gossip[node]
	l, leased := c.leases[node]
	switch {
	case !gossiped, g.State == Left, g.State == Dead && c.renewed(node):
		return l.Record
	case !leased, g.State == Alive && !g.Truncated:
		return g.Record
	}
	r := g.Record
	r.Own = append(slices.Clip(r.Own), l.Own...)
	// Gossip drops a node's own addresses first. So if the record has own addresses, its list of
	// subnets is complete.
	if g.State != Alive || len(g.Own) == 0 {
		r.Subnets = append(slices.Clip(r.Subnets), l.Subnets...)
	}
	return r
}

// lastKnown returns the record of node, or the record in its Lease if the first one is empty. An
// agent that starts while the API server is away has read neither its LBNodeAgent nor its Services,
// and gossips an empty record. It is a candidate for nothing, but its node still has its networks
// and addresses.
func (c *tally) lastKnown(node string) Record {
	if r := c.record(node); len(r.Subnets) > 0 || len(r.Own) > 0 {
		return r
	}
	return c.leases[node].Record
}
