package config

import (
	"slices"

	v2 "purelb.io/purelb/api/purelb/v2"
)

// GroupFinalizer keeps a deleted ServiceGroup that Restricts until no Service has an address of it.
const GroupFinalizer = "purelb.io/announcement"

// Restricts reports whether a group names the neighbors that get its routes, or the nodes that
// announce them. Speakers know that only from the group, so it must not be gone before its addresses.
func Restricts(spec v2.ServiceGroupSpec) bool {
	return spec.BGP != nil && !slices.ContainsFunc(Advertisements(*spec.BGP), func(one v2.Advertisement) bool {
		// With addresses of an IPAM system, nodeSelector is not in effect.
		return len(one.Peers) == 0 && (one.NodeSelector == nil || Managed(spec))
	})
}

// Advertisements returns the advertisements of a group, with the peers and the nodeSelector beside the
// list where an entry has none. A group without a list has one entry.
func Advertisements(of v2.RouteAttributes) []v2.Advertisement {
	all := slices.Clone(of.Advertisements)
	if len(all) == 0 {
		all = []v2.Advertisement{{}}
	}
	for i := range all {
		if len(all[i].Peers) == 0 {
			all[i].Peers = of.Peers
		}
		if all[i].NodeSelector == nil {
			all[i].NodeSelector = of.NodeSelector
		}
	}
	return all
}

// Managed reports whether an IPAM system manages the addresses of a group.
func Managed(spec v2.ServiceGroupSpec) bool { return spec.Netbox != nil || spec.External != nil }

// deleting warns that a group is being deleted. It is for no Service any more. Services keep the
// addresses that they have.
func (r *reading) deleting() {
	if r.sg.DeletionTimestamp.IsZero() {
		return
	}
	r.group.Deleting = true
	why := ""
	if Restricts(r.sg.Spec) {
		why = ". It stays until no Service has one of its addresses, because only spec.bgp says to which neighbors and by which nodes they are announced. " +
			"The condition Terminating names these Services"
	}
	r.warn(ReasonAdjusted, "metadata.deletionTimestamp", "the group is being deleted, and gives no new addresses%s", why)
}
