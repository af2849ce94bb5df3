package census

import (
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/service"
)

// Plan is what an allocator that starts now decides about every Service.
type Plan struct {
	// Requests are the Services, the oldest first.
	Requests []service.Request
	// Cluster holds what the Services have, and what they are to get.
	Cluster ipam.Cluster
	// Choices are the decisions about the Services that PureLB serves.
	Choices map[ipam.Owner]ipam.Choice
}

// Cluster returns s as a choice sees it. No Service has an address in it.
func (s State) Cluster() ipam.Cluster {
	store := ipam.NewStore()
	store.SetBlocked(s.Blocked)
	store.SetNetworks(s.Networks)
	return ipam.Cluster{
		Groups: s.Config.Groups, Store: store, Claims: ipam.NewClaims(store), Subnets: s.Subnets, Boundaries: s.Boundaries,
	}
}

// Plan decides about all requests: Services with addresses keep them, and what is
// missing is given in the order in which the Services were created.
func (s State) Plan(requests []service.Request) Plan {
	p := Plan{
		Requests: slices.SortedFunc(slices.Values(requests), ByAge),
		Cluster:  s.Cluster(),
		Choices:  make(map[ipam.Owner]ipam.Choice, len(requests)),
	}
	for i, r := range p.Requests {
		p.Requests[i] = Unwatched(r)
		p.adopt(p.Requests[i])
	}
	for _, r := range p.Requests {
		Recall(p.Cluster, r)
	}
	// The second time only what they are told changes: a younger Service may have
	// taken what an older one that waits cannot use alone.
	for range 2 {
		for _, r := range p.Requests {
			if r.Owner != service.Anothers {
				p.decide(r)
			}
		}
	}
	return p
}

// adopt notes that the Service of r has what its status shows.
func (p *Plan) adopt(r service.Request) {
	who := ipam.Owner(r.Key())
	p.Cluster.Store.Grant(who, TermsOf(r))
	for _, a := range r.Held {
		p.Cluster.Store.Show(a, who)
	}
	AdoptClaims(p.Cluster, r)
}

// decide chooses for the Service of r, and holds what it chose.
func (p *Plan) decide(r service.Request) {
	who, store := ipam.Owner(r.Key()), p.Cluster.Store
	shown := store.Shown(who)
	r.Held = slices.DeleteFunc(slices.Clone(r.Held), func(a netip.Addr) bool { return !slices.Contains(shown, a) })
	choice := p.Cluster.Choose(r)
	for _, a := range without(choice.Result.Addresses, shown) {
		// It was free when it was chosen, and nothing has changed since.
		_ = store.Hold(a, who, p.Cluster.Wide(a))
	}
	p.Choices[who] = choice
}
