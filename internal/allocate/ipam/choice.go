// Package ipam decides which addresses a Service gets, or why it gets none.
//
// It knows the ServiceGroups and the Services that each is for, which Service holds which
// address, and the exchange between PureLB and backends. (A backend is a system outside of
// the cluster that manages addresses.) All of these are values. The package knows nothing
// of the API server, of time, or of the way to a backend: for the same arguments it makes
// the same choice.
//
// Read the files in this order:
//
//	store.go       the Store says which Service holds which address, by which terms
//	  holdings.go    how holding an address begins and ends; Services that share one
//	  contenders.go  Services that show an address which others hold
//	  conflicts.go   why a Service cannot hold an address
//	  free.go        which addresses are free, and which are blocked
//	  external.go    addresses in spec.externalIPs
//	  vacated.go     addresses that a Service gave up a short time ago
//	cluster.go     a Cluster is all that a choice depends on; what keeps a Service from an
//	               address, what a Service waits for, and what an address is good for
//	choice.go      Choose decides about one Service, in the steps of the next files
//	  keep.go        what the Service has, and what of it stays
//	  fill.go        how it gets what is missing
//	  candidates.go  the groups that may give it an address
//	  boundaries.go  which groups are for which namespaces
//	  supply.go      what one group can give
//	  backed.go      groups whose addresses a backend manages
//	  multi.go       groups that give an address of every pool
//	  sharing.go     addresses that several Services share
//	  asked.go       addresses that the Service asks for
//	  result.go      what is written into the Service
//	  notes.go       what events report, and what the condition warns of
//	  refusals.go    why it gets less than it wants
//	survey.go      what each group and each address means to a Service, for people who ask
//	claim.go       the contract with backends
//	claims.go      Claims are what backends are asked for, and what they hold
//	  claims_work.go     what to ask of a backend for a holder, and what the answers mean
//	  claims_sweep.go    what Services have against what backends hold
package ipam

import (
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/service"
)

// Fits reports whether the Service of r, which is PureLB's, would get an address from the
// pool of a today.
func (c Cluster) Fits(r service.Request, a netip.Addr) bool { return newChooser(c, r).fits(a) }

// Choice is the outcome for one Service.
type Choice struct {
	Result service.Result
	// ClusterPolicy says that the external traffic policy is Local and must be
	// Cluster: the node that announces an address gets all traffic for it.
	ClusterPolicy bool
	// Refusal is why the Service does not get all that it asks for, or nil.
	Refusal *Refusal
	// Notes tell the owner of the Service something about its new addresses.
	Notes []Note
	// Needs are what the Service waits for, if it lacks something. Until one of them is fulfilled,
	// or the cluster changes otherwise, another choice has the same outcome.
	Needs []Need
	// Claims are the claims that the Service waits for, or whose addresses it gets.
	Claims []Claim
	// Counts are the allocations to count after the choice was written.
	Counts []Count
}

// Choose decides about the Service of r, which is PureLB's and whose terms the Store
// knows.
//
// A Service keeps the addresses that it has, even if the configuration has changed. It gets the
// addresses that it lacks. If it asks for other addresses, these replace its own. It keeps an old
// address until there is a new one.
func (c Cluster) Choose(r service.Request) Choice {
	ch := newChooser(c, r)
	d := ch.decide()
	choice := Choice{
		Result:        ch.result(d),
		ClusterPolicy: ch.needsClusterPolicy(d.addresses),
		Refusal:       d.refusal,
		Notes:         ch.notes(d.addresses),
		Needs:         ch.needs(d),
		Claims:        ch.claims,
		Counts:        ch.counts(d.addresses),
	}
	ch.condition(&choice.Result, d)
	return choice
}

// chooser decides about one Service.
type chooser struct {
	Cluster
	// r is the request of the Service. Its families are narrowed during the choice.
	r  service.Request
	me Owner
	// own are the addresses that the Service shows, and then others that it holds and may have.
	own []own
	// ignored are the addresses that the Service asks for although it does not have their
	// family.
	ignored []netip.Addr
	// claims are collected as groups with a backend are asked.
	claims []Claim
}

func newChooser(cluster Cluster, r service.Request) *chooser {
	c := &chooser{Cluster: cluster, r: r, me: Owner(r.Key())}
	if !c.Boundaries.made {
		c.Boundaries = BoundariesOf(c.Groups, nil)
	}
	if c.Claims == nil {
		c.Claims = NewClaims(c.Store)
	}
	c.keep()
	c.fixFamilies(c.has())
	c.r.Asked, c.ignored = c.fitting(c.r.Asked)
	c.fixFamilies(c.r.Asked)
	return c
}

// fixFamilies ends the choice of the family if the Service leaves this choice to PureLB. Then the
// Service wants only the families of decided, unless decided is empty.
func (c *chooser) fixFamilies(decided []netip.Addr) {
	if c.r.Policy != service.One || len(decided) == 0 {
		return
	}
	c.r.Policy = service.All
	c.r.Families = slices.DeleteFunc(slices.Clone(c.r.Families), func(f addr.Family) bool { return len(ofFamily(decided, f)) == 0 })
}

// decision says which addresses a Service gets.
type decision struct {
	// addresses are in the order of the families.
	addresses []netip.Addr
	// lasting returns the addresses that need not be replaced.
	lasting []netip.Addr
	// unfit says that an address should be replaced, but is not.
	unfit bool
	// refusal is why the Service lacks some of the addresses that it asks for, or nil.
	refusal *Refusal
}

// decide returns which addresses the Service gets.
func (c *chooser) decide() decision {
	if c.r.Leaving {
		return decision{addresses: c.assemble(c.has(), nil)}
	}
	good, fresh, refusals := c.has(), []netip.Addr(nil), c.malformed()
	malformed := len(refusals) > 0
	if !malformed {
		good = c.good()
		fresh, refusals = c.fill(good)
		more, refusal := c.grow(good)
		fresh, refusals = append(fresh, more...), append(refusals, refusal...)
	}
	d := decision{addresses: c.assemble(good, fresh)}
	d.lasting = slices.DeleteFunc(slices.Clone(d.addresses), func(a netip.Addr) bool {
		return c.of(a).has && !slices.Contains(good, a)
	})
	d.unfit = malformed || len(d.lasting) < len(d.addresses)
	c.fixFamilies(d.addresses)
	d.refusal = merge(slices.Concat(refusals, c.unoffered(d.addresses), c.collisions(d.addresses)))
	return d
}

// assemble returns good and fresh in the order of the families that the Service wants. If a family
// is in neither, assemble keeps the addresses of the Service. Addresses that the Service does not
// show yet are last, and sorted as in the Store. So a repeated choice returns the same order until
// the addresses are written.
func (c *chooser) assemble(good, fresh []netip.Addr) []netip.Addr {
	var addresses []netip.Addr
	for _, f := range c.r.Families {
		these := append(ofFamily(good, f), ofFamily(fresh, f)...)
		if len(these) == 0 {
			these = ofFamily(c.has(), f)
		}
		unshown := c.unshown(these)
		slices.SortFunc(unshown, netip.Addr.Compare)
		these = slices.DeleteFunc(these, func(a netip.Addr) bool { return slices.Contains(unshown, a) })
		addresses = append(append(addresses, these...), unshown...)
	}
	return addresses
}

// unshown returns those addresses that the Service does not show yet.
func (c *chooser) unshown(addresses []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addresses), func(a netip.Addr) bool { return c.of(a).shown })
}

func ofFamily(addresses []netip.Addr, f addr.Family) []netip.Addr {
	var these []netip.Addr
	for _, a := range addresses {
		if addr.FamilyOf(a) == f {
			these = append(these, a)
		}
	}
	return these
}
