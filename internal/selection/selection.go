// Package selection decides which addresses a Service gets, or why it gets
// none.
//
// It knows the groups, who holds what, and the networks of the nodes, all as
// values that it reads and does not change. It knows nothing of the API server,
// and nothing of time: the same arguments give the same choice.
package selection

import (
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/pool"
	"purelb.io/purelb/internal/service"
)

// Cluster is what a choice depends on beside the Service.
type Cluster struct {
	Config config.Config
	// Book is who holds what, and under which terms. It may be ahead of a
	// Service's status, by what was chosen and is not written yet.
	Book *pool.Book
	// Claims are the Services that show an address which the Book has for
	// others who do not share it with them.
	Claims map[netip.Addr][]pool.Owner
	// Subnets are the networks that nodes announce local addresses of.
	Subnets []netip.Prefix
	// Boundaries say which groups of Config are for whom. The zero value knows
	// of no namespace.
	Boundaries Boundaries
}

// Wide reports whether Services of different namespaces may share a.
func (c Cluster) Wide(a netip.Addr) bool {
	g, _, ok := c.Config.GroupOf(a)
	return ok && g.SharedAcrossNamespaces
}

// Refuses says what keeps by from a, which it does not show: who holds a or
// claims it, or has what by wants there, although a is held for by since it wanted
// something else. It is nil when nothing does.
func (c Cluster) Refuses(a netip.Addr, by pool.Owner) error {
	for _, collision := range c.Book.Collisions(by) {
		if collision.Addr == a {
			return collision
		}
	}
	if err := c.Book.Refuses(a, by, c.Wide(a)); err != nil || len(c.Claims[a]) == 0 || slices.Contains(c.Book.Held(by), a) {
		return err
	}
	if i := slices.IndexFunc(c.Claims[a], func(o pool.Owner) bool { return o != by }); i >= 0 {
		return &pool.HeldError{Addr: a, By: c.Claims[a][i], Reason: pool.HeldByKey}
	}
	return nil
}

// Choice is what becomes of a Service.
type Choice struct {
	Result service.Result
	// ClusterPolicy says that the external traffic policy must be Cluster,
	// and is not: one node has a local address, and takes all its traffic, and
	// so it is with an address that Services share.
	ClusterPolicy bool
	// Refusal is why the Service does not get all that it wants, or nil.
	Refusal *Refusal
	// Notes are what its owner should know about addresses that are new.
	Notes []Note
	// Needs are what must become true before it is worth choosing anew, beside
	// a change of the surroundings. They are for a Service that does not have
	// all that it wants.
	Needs []Need
	// Counts are the allocations to count once this choice has been written.
	Counts []Count
}

// Need is what a Service waits for: that something changes about Addr, or a free
// address of Family in Group.
type Need struct {
	Addr   netip.Addr
	Group  string
	Family addr.Family
}

// Choose decides about the Service of r, which is ours, and whose terms the Book
// knows.
//
// A Service keeps what it has, whatever the configuration says now. What it
// misses is chosen, and what it asks for in place of what it has; the old stays
// until there is the new.
func (c Cluster) Choose(r service.Request) Choice {
	if !c.Boundaries.made {
		c.Boundaries = BoundariesOf(c.Config, nil)
	}
	m := newMatter(c, r)
	addresses, refusal := m.settle()
	conflict := m.conflict(addresses)
	choice := Choice{
		Result:        m.result(addresses),
		ClusterPolicy: m.needsClusterPolicy(addresses),
		Refusal:       refusal,
		Notes:         m.notes(addresses),
		Needs:         m.needs(m.lasting, refusal),
		Counts:        m.counts(addresses),
	}
	choice.Result.Allocated, choice.Result.Reason, choice.Result.Message = m.verdict(choice.Result, refusal, conflict)
	return choice
}
