package speaker

import (
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
)

// announceable says which addresses may become routes, and with which attributes. A route of a
// group that names neighbors must wait for the policy that keeps it from other neighbors.
type announceable struct {
	now intent.Attributes
	// before are the attributes of the policies in effect.
	before intent.Attributes
	// open are the addresses that all neighbors had when now took effect.
	open    map[netip.Addr]bool
	weights map[netip.Addr]uint32
	// dummy is the interface of remote addresses.
	dummy string
	// running says that the server runs, so that neighbors would get what is announced too early.
	running bool
}

// announceable returns what may be announced now.
func (s *Speaker) announceable() announceable {
	return announceable{
		now: s.input.Attributes, before: s.governing.enforced, open: s.imports.open,
		weights: s.input.Weights, dummy: s.input.Dummy, running: s.governing.running,
	}
}

// of returns the attributes of the route to ip, and false if the route must not be announced.
func (a announceable) of(ip netip.Addr) (peering.Attributes, bool) {
	attributes := a.now.Of(ip)
	ok := a.now.Knows(ip) && a.now.Enforces(attributes.Marks)
	if ok && a.running && !a.before.Enforces(attributes.Marks) {
		// All neighbors still get the route if they got it before the group named neighbors.
		attributes = a.before.Of(ip)
		ok = len(attributes.Marks) > 0 || a.open[ip]
	}
	attributes.Weight = a.weights[ip]
	return attributes, ok
}

// attributes returns the attributes of the route to ip.
func (a announceable) attributes(ip netip.Addr) peering.Attributes {
	attributes, _ := a.of(ip)
	return attributes
}

// among returns those of the imported addresses that may be announced. The node's own addresses may
// always be announced. An address counts as the node's own if it is not on dummy and not known to
// be of a Service.
func (a announceable) among(imported []peering.Imported) []peering.Imported {
	return slices.DeleteFunc(slices.Clone(imported), func(i peering.Imported) bool {
		ip := i.Address.Addr()
		_, ok := a.of(ip)
		return !ok && (i.Interface == a.dummy || i.Service || a.now.Has(ip))
	})
}

// open returns the addresses that all neighbors have now.
func (s *Speaker) open() map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	here, _ := s.input.Attributes.AnnouncedHere(s.imported())
	may := s.announceable()
	for _, i := range may.among(here) {
		if ip := i.Address.Addr(); len(may.attributes(ip).Marks) == 0 {
			all[ip] = true
		}
	}
	return all
}
