package speaker

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/peering"
)

// restrictionOf returns which neighbors get the routes of a group, or nil if all do, and what
// is wrong with the list.
func restrictionOf(s Snapshot, g ipam.Group, of *v2.RouteAttributes) (*peering.Restriction, []peering.Problem) {
	if len(of.Peers) == 0 {
		return nil, nil
	}
	r := &peering.Restriction{Group: g.Ref(), Mark: peering.MarkOf(g.Ref()), Peers: texts(of.Peers)}
	r.Unknown = peering.UnknownPeers(s.Configs, r.Peers)
	if len(r.Unknown) == 0 {
		return r, nil
	}
	return r, []peering.Problem{{
		Field: "peers", Reason: peering.ReasonNotFound,
		Message: "no neighbor of a BGPConfiguration has the address, the interface or the peer group " + strings.Join(r.Unknown, ", ") +
			": correct it; the addresses are announced only to the others",
	}}
}

// restricts reports whether an IPAM system manages the addresses of a group that names
// neighbors. Only the Services then tell which addresses these are.
func restricts(groups []v2.ServiceGroup) bool {
	return slices.ContainsFunc(groups, func(g v2.ServiceGroup) bool {
		return g.Spec.BGP != nil && len(g.Spec.BGP.Peers) > 0 && (g.Spec.Netbox != nil || g.Spec.External != nil)
	})
}

// markManaged marks the addresses that IPAM systems manage for groups that name neighbors.
func (a *Attributes) markManaged(s Snapshot, b bounds) {
	marks, kept := map[string]string{}, b.managed()
	maps.Copy(marks, kept)
	for _, g := range b.usable {
		if mark := peering.MarkOf(g.Ref()); len(g.Pools) == 0 && a.enforces([]string{mark}) {
			marks[g.DisplayName()] = mark
		}
	}
	if len(marks) == 0 {
		return
	}
	// A deleted group gives no further addresses. Once its Services are known, no other address is
	// from it.
	a.Managed, a.Withheld = marks, restricts(s.Groups) || s.Managed == nil
	for _, svc := range s.Managed {
		for _, ip := range svc.Addresses {
			a.ByAddress[ip] = a.of(ip)
			for from := range strings.SplitSeq(svc.From, ", ") {
				if mark, there := marks[from]; there && a.around(ip) == nil {
					a.mark(ip, mark)
				}
			}
		}
	}
	a.keepManaged(b, kept, s.Managed)
}

// announceable says which addresses may become routes, and with which attributes. A route of a
// group that names neighbors must wait for the policy that keeps it from other neighbors.
type announceable struct {
	now Attributes
	// before are the attributes of the policies in effect.
	before Attributes
	// open are the addresses that all neighbors had when now came.
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

// of returns the attributes of the route to ip, and false if it must not be announced.
func (a announceable) of(ip netip.Addr) (peering.Attributes, bool) {
	attributes, ok := a.now.of(ip), a.now.knows(ip)
	if ok && a.running && !a.before.enforces(attributes.Marks) {
		// All neighbors still get the route if they got it before the group named neighbors.
		attributes, ok = a.before.of(ip), a.before.has(ip) || a.open[ip]
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
	if len(a.now.Restricted) == 0 {
		return imported
	}
	return slices.DeleteFunc(slices.Clone(imported), func(i peering.Imported) bool {
		ip := i.Address.Addr()
		_, ok := a.of(ip)
		return !ok && (i.Interface == a.dummy || i.Service || a.now.has(ip))
	})
}

// open returns the addresses that all neighbors have now.
func (s *Speaker) open() map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	here, _ := s.input.Attributes.announcedHere(s.imported())
	may := s.announceable()
	for _, i := range may.among(here) {
		if ip := i.Address.Addr(); len(may.attributes(ip).Marks) == 0 {
			all[ip] = true
		}
	}
	return all
}

// enforces reports whether there are statements for all marks.
func (a Attributes) enforces(marks []string) bool {
	return !slices.ContainsFunc(marks, func(mark string) bool {
		return !slices.ContainsFunc(a.Restricted, func(r peering.Restriction) bool { return r.Mark == mark })
	})
}

// has reports whether the group or the Service of ip is known.
func (a Attributes) has(ip netip.Addr) bool {
	_, own := a.ByAddress[ip]
	return own || a.around(ip) != nil
}

// knows reports whether it is known which neighbors get the route to ip. If an IPAM system manages
// the addresses of a group that names neighbors, an address outside of all pools may be from that
// group until its Service is seen.
func (a Attributes) knows(ip netip.Addr) bool { return !a.Withheld || a.has(ip) }

// announcedElsewhere reports whether the nodeSelector of a group leaves out the node with these
// labels, and what is wrong with the selector. A malformed selector selects no node: otherwise
// a mistake could announce the addresses where they must not be announced.
func announcedElsewhere(g ipam.Group, s *metav1.LabelSelector, node map[string]string) (bool, []peering.Problem) {
	const field = "nodeSelector"
	if s == nil {
		return false, nil
	}
	_, err := metav1.LabelSelectorAsSelector(s)
	switch {
	case len(g.Pools) == 0:
		return false, []peering.Problem{{
			Field: field, Reason: peering.ReasonNotSupported,
			Message: "is not in effect, because the group has no pool: all nodes announce the addresses of its IPAM system. Remove it",
		}}
	case err != nil:
		return true, []peering.Problem{{
			Field: field, Reason: peering.ReasonParseError,
			Message: err.Error() + ": no node announces the addresses of the group: correct it, or remove it to select all nodes",
		}}
	}
	return !selects(s, node), nil
}

// selects reports whether a selector that is not malformed selects the node with these labels.
func selects(s *metav1.LabelSelector, node map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(node))
}

// announcedHere divides imported addresses: here are those that this node may announce, and
// elsewhere is the number of those that only other nodes announce.
func (a Attributes) announcedHere(imported []peering.Imported) (here []peering.Imported, elsewhere int) {
	here = make([]peering.Imported, 0, len(imported))
	for _, i := range imported {
		if r := a.around(i.Address.Addr()); r != nil && r.Elsewhere {
			elsewhere++
			continue
		}
		here = append(here, i)
	}
	return here, elsewhere
}
