package census

import (
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/service"
)

// Plan is what an allocator that starts now decides about every Service.
type Plan struct {
	// Requests holds the Services, the oldest first.
	Requests []service.Request
	// Cluster holds the addresses that the Services have and will get.
	Cluster ipam.Cluster
	// Choices holds the decisions about the Services that PureLB serves.
	Choices map[ipam.Owner]ipam.Choice
}

// Cluster returns s in the form that a choice needs. No Service has an address in it.
func (s State) Cluster() ipam.Cluster {
	store := ipam.NewStore()
	store.SetBlocked(s.Blocked)
	store.SetNetworks(s.Networks)
	for by, addresses := range s.Listed {
		store.List(by, addresses)
	}
	return ipam.Cluster{
		Groups: s.Config.Groups, Store: store, Claims: ipam.NewClaims(store), Subnets: s.Subnets, Boundaries: s.Boundaries,
	}
}

// Holdings returns the cluster as an allocator sees it at its start, and the requests: see Open.
func (s State) Holdings(requests []service.Request) (ipam.Cluster, []service.Request) {
	c := s.Cluster()
	return c, Open(c, requests)
}

// Plan decides about all requests. Services keep their addresses, and get missing ones in the
// order in which they were created.
func (s State) Plan(requests []service.Request) Plan {
	p := Plan{Choices: make(map[ipam.Owner]ipam.Choice, len(requests))}
	p.Cluster, p.Requests = s.Holdings(requests)
	// The second round changes only messages. After the decision about an older Service, a younger
	// one may have taken an address that the older one cannot use alone.
	for range 2 {
		for _, r := range p.Requests {
			if r.Owner != service.Anothers {
				p.decide(r)
			}
		}
	}
	return p
}

// decide chooses for the Service of r, and holds the choice.
func (p *Plan) decide(r service.Request) {
	who, store := ipam.Owner(r.Key()), p.Cluster.Store
	shown := store.Shown(who)
	r.Held = Shown(p.Cluster, r)
	choice := p.Cluster.Choose(r)
	for _, a := range addr.Without(choice.Result.Addresses, shown) {
		// The address was free when the choice was made, and nothing has changed since.
		_ = store.Hold(a, who, p.Cluster.Wide(a))
	}
	p.Choices[who] = choice
}
