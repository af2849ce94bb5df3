package intent

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/groups"
)

// advertisement is an entry of spec.bgp.advertisements.
type advertisement struct {
	v2.Advertisement
	index int
}

func advertisementsOf(of *v2.RouteAttributes) []advertisement {
	var all []advertisement
	for i, one := range config.Advertisements(*of) {
		all = append(all, advertisement{one, i})
	}
	return all
}

// advertisedHere returns the advertisements of this node, and what is wrong with all of them.
func advertisedHere(g groups.Group, of *v2.RouteAttributes, node map[string]string) (here []advertisement, problems []peering.Problem) {
	for _, one := range advertisementsOf(of) {
		elsewhere, wrong := announcedElsewhere(g, one.NodeSelector, node)
		if len(of.Advertisements) > 0 {
			_, unread := attributesOf(one)
			wrong = append(wrong, unread...)
			for i := range wrong {
				wrong[i].Field = fmt.Sprintf("advertisements[%d].%s", one.index, wrong[i].Field)
			}
		}
		problems = append(problems, wrong...)
		if !elsewhere {
			here = append(here, one)
		}
	}
	return here, problems
}

// announcedElsewhere reports whether the nodeSelector of a group leaves out the node with these
// labels, and what is wrong with the selector. A malformed selector selects no node: otherwise
// a mistake could announce the addresses where they must not be announced.
func announcedElsewhere(g groups.Group, s *metav1.LabelSelector, node map[string]string) (bool, []peering.Problem) {
	const field = "nodeSelector"
	if s == nil {
		return false, nil
	}
	selected, err := peering.Selects(s, node)
	switch {
	case g.Backend != "":
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
	return !selected, nil
}

// peersOf returns the neighbors that advertisements name, or nil if one of them is for all
// neighbors.
func peersOf(all []advertisement) []string {
	var names []string
	for _, one := range all {
		if len(one.Peers) == 0 {
			return nil
		}
		for _, name := range texts(one.Peers) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// unknownPeers returns the problems of names that no neighbor has.
func unknownPeers(configs []bgpv1.BGPConfiguration, of *v2.RouteAttributes) []peering.Problem {
	var all []peering.Problem
	check := func(field string, peers []v2.Peer) {
		if unknown := peering.UnknownPeers(configs, texts(peers)); len(unknown) > 0 {
			all = append(all, peering.Problem{
				Field: field, Reason: peering.ReasonNotFound,
				Message: "no neighbor of a BGPConfiguration has the address, the interface or the peer group " + strings.Join(unknown, ", ") +
					": correct it; the addresses are announced only to the others",
			})
		}
	}
	check("peers", of.Peers)
	for i, one := range of.Advertisements {
		check(fmt.Sprintf("advertisements[%d].peers", i), one.Peers)
	}
	return all
}

// bitsOf returns the length of the routes of an advertisement for a pool.
func bitsOf(one v2.Advertisement, p groups.Pool) int {
	text := string(one.Aggregation)
	if p.Family() == addr.V6 {
		text = string(one.AggregationV6)
	}
	bits, err := strconv.Atoi(strings.TrimPrefix(text, "/"))
	if err != nil {
		return p.Bits
	}
	return bits
}

// advertise sets by which routes the advertisements of this node announce the addresses of a pool.
// Advertisements with the same mask share a route.
func (a *Attributes) advertise(s Snapshot, of *v2.RouteAttributes, r *RangeAttributes, p groups.Pool, here []advertisement) {
	byBits := map[int][]advertisement{}
	for _, one := range here {
		bits := bitsOf(one.Advertisement, p)
		byBits[bits] = append(byBits[bits], one)
	}
	for _, bits := range slices.Sorted(maps.Keys(byBits)) {
		shared, as := byBits[bits], peering.Advertised{}
		if bits != p.Bits {
			as.Bits = bits
		}
		name := r.Group
		if len(shared) < len(here) { // two pools may share masks in different ways
			name = fmt.Sprintf("%s %v", r.Group, indexes(shared))
		}
		as.Marks, as.Profile = a.restrict(s, name, shared), a.profile(name, of, shared)
		r.Attributes.Advertised = append(r.Attributes.Advertised, as)
	}
	r.Attributes.Marks = marksOf(r.Attributes.Advertised)
	if only := r.Attributes.Advertised; len(only) == 1 && only[0].Bits == 0 && only[0].Profile == "" {
		r.Attributes.Advertised = nil
	}
}

func indexes(of []advertisement) (all []int) {
	for _, one := range of {
		all = append(all, one.index)
	}
	return all
}

// marksOf returns all marks of routes, which neighbors must know of before the routes are announced.
func marksOf(routes []peering.Advertised) []string {
	var all []string
	for _, one := range routes {
		all = append(all, one.Marks...)
		if one.Profile != "" {
			all = append(all, one.Profile)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// restrict adds the restriction to the neighbors that advertisements name, and returns its marks.
func (a *Attributes) restrict(s Snapshot, name string, all []advertisement) []string {
	peers := peersOf(all)
	if len(peers) == 0 {
		return nil
	}
	return []string{a.add(peering.Restriction{Group: name, Mark: peering.MarkOf(name), Peers: peers, Unknown: peering.UnknownPeers(s.Configs, peers)})}
}

// profile adds what advertisements set at neighbors, and returns its mark, or "" if they set nothing.
func (a *Attributes) profile(name string, of *v2.RouteAttributes, all []advertisement) string {
	name += " attributes"
	r := peering.Restriction{Group: name, Mark: peering.ProfileOf(name)}
	sets := of.ASPathPrepend > 0
	for _, one := range all {
		read, _ := attributesOf(one)
		r.Advertisements = append(r.Advertisements, read)
		sets = sets || !reflect.DeepEqual(read, peering.Advertisement{Peers: read.Peers})
	}
	if !sets {
		return ""
	}
	if of.ASPathPrepend > 0 {
		r.Advertisements = append(r.Advertisements, peering.Advertisement{Prepend: number(&of.ASPathPrepend)})
	}
	return a.add(r)
}

// add adds a restriction, unless it is there, and returns its mark.
func (a *Attributes) add(r peering.Restriction) string {
	if !a.Enforces([]string{r.Mark}) {
		a.Restricted = append(a.Restricted, r)
	}
	return r.Mark
}

// attributesOf reads what an advertisement sets, and what is wrong with it.
func attributesOf(one advertisement) (peering.Advertisement, []peering.Problem) {
	attributes, problems := peering.ParseAttributes(texts(one.Communities), texts(one.LargeCommunities), one.MED, one.LocalPreference)
	return peering.Advertisement{Peers: texts(one.Peers), Attributes: attributes, Prepend: number(one.ASPathPrepend)}, problems
}

// number returns n, which the schema limits to 10, as a small number.
func number(n *int32) *uint8 {
	if n == nil {
		return nil
	}
	return new(uint8(*n))
}

// override returns the attributes of an address whose Service sets some itself.
func (a *Attributes) override(group, service peering.Attributes) peering.Attributes {
	out := peering.Merge(group, service)
	if out.Advertised == nil {
		return out
	}
	out.Advertised = slices.Clone(out.Advertised)
	for i, one := range out.Advertised {
		if n := slices.IndexFunc(a.Restricted, func(r peering.Restriction) bool { return r.Mark == one.Profile }); n >= 0 {
			out.Advertised[i].Profile = a.add(a.Restricted[n].Without(service))
		}
	}
	out.Marks = marksOf(out.Advertised)
	return out
}

// Aggregates reports whether routes have other masks than the addresses on their interface.
func (a Attributes) Aggregates() bool {
	return slices.ContainsFunc(a.Ranges, func(r RangeAttributes) bool {
		return slices.ContainsFunc(r.Attributes.Advertised, func(one peering.Advertised) bool { return one.Bits > 0 })
	})
}
