package intent

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/config"
)

// Attributes holds the attributes of routes, by their addresses.
type Attributes struct {
	// ByAddress holds the attributes of addresses whose Services set attributes. The
	// attributes of their groups are merged into them.
	ByAddress map[netip.Addr]peering.Attributes
	// Ranges holds the attributes of the groups. The ranges do not overlap, and are sorted.
	Ranges []RangeAttributes
	// Restricted says which neighbors get the routes of groups, sorted by group.
	Restricted []peering.Restriction `json:",omitempty"`
	// Managed holds the marks of the groups whose addresses an IPAM system manages, by the names
	// that Services have for these groups.
	Managed map[string]string `json:",omitempty"`
	// Bounds are the neighbors and the nodes that groups name. Lost are the Bounds of
	// addresses that no usable group has any more, in the form of BGPNodeStatus. In both,
	// the field Addresses has only such addresses.
	Bounds []bgpv1.GroupBounds `json:",omitempty"`
	Lost   []bgpv1.GroupBounds `json:",omitempty"`
	// Withheld says that addresses of no known group or Service must not be announced.
	Withheld bool `json:",omitempty"`
}

// RangeAttributes holds the attributes of the addresses From to To.
type RangeAttributes struct {
	From, To netip.Addr
	// Group is the name of the ServiceGroup.
	Group      string
	Attributes peering.Attributes
	// Weighed says that routes have the number of ready endpoints as their weight.
	Weighed bool `json:",omitempty"`
	// Elsewhere says that only other nodes announce the addresses.
	Elsewhere bool `json:",omitempty"`
	// Chosen says that the group names this node.
	Chosen bool `json:",omitempty"`
}

// Of returns the attributes of the route to ip. The range of ip sets them before the speaker
// has seen the Service, so that it need not announce the route twice.
func (a Attributes) Of(ip netip.Addr) peering.Attributes {
	if own, ok := a.ByAddress[ip]; ok {
		return own
	}
	if r := a.around(ip); r != nil {
		return r.Attributes
	}
	return peering.Attributes{}
}

// around returns the range of ip, or nil.
func (a Attributes) around(ip netip.Addr) *RangeAttributes {
	i, found := slices.BinarySearchFunc(a.Ranges, ip, func(r RangeAttributes, ip netip.Addr) int { return r.From.Compare(ip) })
	if !found {
		i--
	}
	if i >= 0 && ip.Compare(a.Ranges[i].To) <= 0 {
		return &a.Ranges[i]
	}
	return nil
}

// Enforces reports whether there are statements for all marks.
func (a Attributes) Enforces(marks []string) bool {
	return !slices.ContainsFunc(marks, func(mark string) bool {
		return !slices.ContainsFunc(a.Restricted, func(r peering.Restriction) bool { return r.Mark == mark })
	})
}

// Has reports whether the group or the Service of ip is known.
func (a Attributes) Has(ip netip.Addr) bool {
	_, own := a.ByAddress[ip]
	return own || a.around(ip) != nil
}

// Knows reports whether it is known which neighbors get the route to ip. If an IPAM system manages
// the addresses of a group that names neighbors, an address outside of all pools may be from that
// group until its Service is seen.
func (a Attributes) Knows(ip netip.Addr) bool { return !a.Withheld || a.Has(ip) }

// Chosen reports whether the group of ip names this node.
func (a Attributes) Chosen(ip netip.Addr) bool {
	r := a.around(ip)
	return r != nil && r.Chosen
}

// AnnouncedHere divides imported addresses: here are those that this node may announce, and
// elsewhere is the number of those that only other nodes announce.
func (a Attributes) AnnouncedHere(imported []peering.Imported) (here []peering.Imported, elsewhere int) {
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

// readAttributes reads the route attributes of groups and Services, and records what is wrong with
// them. b has the bounds of earlier groups.
func (in *Input) readAttributes(s Snapshot, groups config.Config, b bounds) Attributes {
	a := Attributes{ByAddress: map[netip.Addr]peering.Attributes{}}
	for _, g := range groups.Groups.Usable {
		object := s.group(g)
		if object == nil || object.Spec.BGP == nil {
			continue
		}
		of := object.Spec.BGP
		attributes, problems := peering.ParseAttributes(texts(of.Communities), texts(of.LargeCommunities), of.MED, of.LocalPreference)
		if of.WeightByEndpoints {
			problems = append(problems, unweighable(g)...)
		}
		here, wrong := advertisedHere(g, of, in.Node.Labels)
		in.complain(groupRef(*object), g.Ref(), slices.Concat(problems, wrong, unknownPeers(s.Configs, of)))
		if len(g.Pools) == 0 {
			a.restrict(s, g.Ref(), here)
		}
		chosen := slices.ContainsFunc(here, func(one advertisement) bool { return one.NodeSelector != nil })
		elsewhere := len(here) == 0
		if elsewhere {
			here = advertisementsOf(of) // the group may be gone when the node gets its labels
		}
		for _, p := range g.Pools {
			r := RangeAttributes{From: p.Range.From, To: p.Range.To, Group: g.Ref(), Attributes: attributes, Elsewhere: elsewhere, Chosen: chosen}
			r.Weighed = of.WeightByEndpoints && p.Bits == p.Range.From.BitLen()
			a.advertise(s, of, &r, p, here)
			a.Ranges = append(a.Ranges, r)
		}
	}
	lost := b.ranges(a.Ranges, in.Node.Labels)
	a.Ranges = append(a.Ranges, lost...)
	slices.SortFunc(a.Ranges, func(a, b RangeAttributes) int { return a.From.Compare(b.From) })
	// If Services share an address, the first by name wins.
	for _, svc := range slices.Backward(s.Services) {
		if len(svc.Annotations) == 0 {
			continue
		}
		own, problems := peering.AttributesOf(svc.Annotations)
		in.complain(serviceRef(svc), svc.Name, problems)
		for _, ip := range svc.Addresses {
			delete(a.ByAddress, ip)
			a.ByAddress[ip] = a.override(a.Of(ip), own)
		}
	}
	a.markManaged(s, b)
	a.Restricted = append(a.Restricted, b.restrictions(a)...)
	a.record(b, lost)
	slices.SortFunc(a.Restricted, func(a, b peering.Restriction) int { return cmp.Compare(a.Group, b.Group) })
	return a
}

// Restricts reports whether an IPAM system manages the addresses of a group that names
// neighbors. Only the Services then tell which addresses these are.
func Restricts(groups []v2.ServiceGroup) bool {
	return slices.ContainsFunc(groups, func(g v2.ServiceGroup) bool {
		return g.Spec.BGP != nil && len(peersOf(advertisementsOf(g.Spec.BGP))) > 0 && (g.Spec.Netbox != nil || g.Spec.External != nil)
	})
}

// markManaged marks the addresses that IPAM systems manage for groups that name neighbors.
func (a *Attributes) markManaged(s Snapshot, b bounds) {
	marks, kept := map[string]string{}, b.managed()
	maps.Copy(marks, kept)
	for _, g := range b.usable {
		if mark := peering.MarkOf(g.Ref()); len(g.Pools) == 0 && a.Enforces([]string{mark}) {
			marks[g.DisplayName()] = mark
		}
	}
	if len(marks) == 0 {
		return
	}
	// A deleted group gives no further addresses. Once its Services are known, no other address is
	// from it.
	a.Managed, a.Withheld = marks, Restricts(s.Groups) || s.Managed == nil
	for _, svc := range s.Managed {
		for _, ip := range svc.Addresses {
			a.ByAddress[ip] = a.Of(ip)
			for from := range strings.SplitSeq(svc.From, ", ") {
				if mark, there := marks[from]; there && a.around(ip) == nil {
					a.mark(ip, mark)
				}
			}
		}
	}
	a.keepManaged(b, kept, s.Managed)
}

// selects reports whether a selector that is not malformed selects the node with these labels.
func selects(s *metav1.LabelSelector, node map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(node))
}
