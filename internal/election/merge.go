package election

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Merge returns what e says of all nodes at now.
//
// Whoever gossip hears is alive. Whoever it lost is gone at once, as long as it
// still hears most: then the fault is theirs, not ours. When most are lost at
// once, that may be our own fault, and so the Leases decide on each, as soon as
// they can; until then the lost stay members, and what they hold stays theirs.
// A Lease that is renewed later proves that its node lives although gossip does
// not reach it. Nodes that never gossiped are what their Leases say;
// one that was not seen to renew its Lease either is no candidate for what it does
// not hold.
//
// That somebody is wrongly thought gone does no harm by itself: before a node
// takes an address it asks the segment whether it is answered.
func Merge(e Evidence, now time.Time) Peers {
	c := newCourt(e)
	p := Peers{Own: map[netip.Addr]string{}, MACs: c.macs()}
	for _, node := range c.nodes() {
		r := c.record(node)
		p.Known = append(p.Known, r.Subnets...)
		for _, a := range r.Own {
			if _, taken := p.Own[a]; !taken {
				p.Own[a] = node // of several, the first by name
			}
		}
		if c.fate(node) != gone {
			p.Members = append(p.Members, Member{
				Node: node, Subnets: r.Subnets, Eligible: true, Draining: r.Draining, Reachable: c.hears(node),
				Unproven: c.unproven(node), Unconfigured: c.leases[node].Unconfigured,
			})
		}
	}
	slices.SortFunc(p.Known, netip.Prefix.Compare)
	p.Known = slices.Compact(p.Known)

	at, alone := c.cutOff()
	p.CutOff = alone && !now.Before(at)
	certain := len(c.undecided) == 0 && c.heard+c.parted > 0
	p.Trusted = e.Settled && (e.LeasesTrusted || certain)
	return p
}

// macs returns the nodes by their Ethernet addresses. What two nodes claim as theirs belongs
// to neither: by one of them it may be a lie.
func (c *court) macs() map[[6]byte]string {
	all, claimed := map[[6]byte]string{}, map[[6]byte]string{}
	for node, r := range c.leases {
		for _, mac := range r.MACs {
			if other, twice := claimed[mac]; twice && other != node {
				delete(all, mac)
				continue
			}
			claimed[mac], all[mac] = node, node
		}
	}
	return all
}

// CutOffAt returns from when this node is cut off if there is no contact with the
// API server before; ok is false if it is not about to be.
func (e Evidence) CutOffAt() (at time.Time, ok bool) { return newCourt(e).cutOff() }

// court is an Evidence arranged for judging.
type court struct {
	Evidence
	gossip map[string]Gossiped
	leases map[string]Leased
	losses
	// parted is how many of the nodes that gossip remembers are gone. Undecided are nodes
	// that gossip lost, and that may be gone or not.
	parted    int
	undecided []Gossiped
}

func newCourt(e Evidence) *court {
	c := &court{Evidence: e, gossip: map[string]Gossiped{}, leases: map[string]Leased{}, losses: lossesOf(e)}
	for _, l := range e.Leases {
		c.leases[l.Node] = l
	}
	for _, g := range e.Gossip {
		c.gossip[g.Node] = g
	}
	for _, g := range e.Gossip {
		switch c.fate(g.Node) {
		case gone:
			c.parted++
		case undecided:
			c.undecided = append(c.undecided, g)
		}
	}
	return c
}

// nodes are all that there is evidence about, sorted.
func (c *court) nodes() []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(c.gossip)), maps.Keys(c.leases))
	slices.Sort(all)
	return slices.Compact(all)
}

// hears says whether gossip reaches node.
func (c *court) hears(node string) bool {
	g, ok := c.gossip[node]
	return ok && g.State == Alive
}

// fate is what became of a node.
type fate int

const (
	alive fate = iota
	gone
	undecided
)

func (c *court) fate(node string) fate {
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

// unproven says that only a Lease tells of node, and that this node has seen no renewal of
// it: node may have been off for long. Where gossip reaches no other node, a Lease that is
// kept fast is a sign of life, because it does not count for long without a renewal.
func (c *court) unproven(node string) bool {
	_, gossiped := c.gossip[node]
	l := c.leases[node]
	return !gossiped && node != c.Self && l.Renewed.IsZero() && (l.Slow || c.heard > 0)
}

// renewed says whether node, which gossip does not hear, has renewed its Lease
// since.
func (c *court) renewed(node string) bool {
	l := c.leases[node]
	return l.Alive && l.Renewed.After(c.gossip[node].Since.Add(Late))
}

// record is what node says, by its latest words. Where it is not known which
// those are, it is all of them.
func (c *court) record(node string) Record {
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
	// A node's own addresses are the first that gossip leaves out, so where it
	// tells of some it tells of all subnets.
	if g.State != Alive || len(g.Own) == 0 {
		r.Subnets = append(slices.Clip(r.Subnets), l.Subnets...)
	}
	return r
}

// cutOff returns from when this node counts as cut off: it hears fewer nodes, itself
// included, than are undecided, and for Patience no contact with the API server was proven.
// With half of all nodes neither side gives up: of two nodes, the one that is left would
// give up what no other node can have.
func (c *court) cutOff() (at time.Time, ok bool) {
	present, missing := c.heard+1, len(c.undecided)
	if c.LeasesTrusted || present >= missing {
		return time.Time{}, false
	}
	lost := slices.SortedFunc(slices.Values(c.undecided), func(a, b Gossiped) int { return a.Since.Compare(b.Since) })
	at = lost[(present+missing)/2].Since // when more were lost than were not
	if c.Contact.After(at) {
		at = c.Contact
	}
	return at.Add(Patience), true
}
