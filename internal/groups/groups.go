// Package groups says what a ServiceGroup is: its pools of addresses, the namespaces and Services
// that it is for, and where its addresses are announced. It also says which group a name means, and
// which group and pool contain an address. It does not know which Service holds an address.
//
// Read the files in this order:
//
//	pool.go    a Pool is a range of addresses; how a user writes one
//	groups.go  Groups are the ServiceGroups of a cluster
//	lookup.go  which group has a name, which pool has an address
package groups

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"purelb.io/purelb/internal/addr"
)

// Announce says where the addresses of a group are announced.
type Announce string

const (
	// AnnounceLocal addresses are on the interface of one elected node of their
	// subnet. They are nowhere if no node has the subnet.
	AnnounceLocal Announce = "Local"
	// AnnounceRemote addresses are on the dummy interface of every node.
	AnnounceRemote Announce = "Remote"
	// AnnounceAuto is the rule of the v1 API: local if a node has the subnet,
	// otherwise remote.
	AnnounceAuto Announce = "Auto"
)

// Group is a ServiceGroup that gives addresses to Services.
type Group struct {
	Namespace, Name string
	// Outside says that Namespace is not the one that PureLB is installed in.
	Outside bool
	UID     types.UID
	// Alias is spec.name of the flat v1 form. It is "" if there is none, or if the
	// name belongs to another group. Services may name the group by its alias, and
	// the annotation allocated-from shows it.
	Alias    string
	Announce Announce
	// Backend is the system that manages the addresses of the group, as people call it:
	// "NetBox", or the provider of an IPAM server. It is "" if PureLB does that itself.
	// A group with a backend has no Pools.
	Backend string
	// Masks are the lengths of the masks that addresses from the backend have on the dummy
	// interface. A family without an entry has the longest mask.
	Masks map[addr.Family]int
	// Pools are in the order in which they are tried: the arrays in
	// declaration order, then the single pool; v4 before v6.
	Pools       []Pool
	SkipIPv6DAD bool
	// Nodes order the nodes that may have the addresses of a local group.
	Nodes []NodeWeight
	// RebalanceAfter is how long a node must have been able to have a local address before the address
	// goes back to it. 0 means that it never does.
	RebalanceAfter time.Duration
	// Restricted says that the group names the neighbors that get its routes, or the nodes that
	// announce them.
	Restricted bool
	// Deleting says that the group is being deleted. It gives no new address. Services keep theirs.
	Deleting bool
	// WithdrawIdle says that no node announces an address while no Service that has it has
	// an endpoint.
	WithdrawIdle bool
	// MultiPool gives a Service one address of every pool. BalancePools gives it an address
	// of the pool with the fewest addresses in use. They exclude each other for a Service.
	MultiPool, BalancePools bool
	// ForbidMultiPool says that no Service may ask for MultiPool.
	ForbidMultiPool bool
	// SharedAcrossNamespaces lets Services of different namespaces share an address.
	// Without it only Services of one namespace may.
	SharedAcrossNamespaces bool
	Boundary
}

// NodeWeight gives a weight of 1 or more to the nodes with certain labels.
type NodeWeight struct {
	Selector labels.Selector
	Weight   int
}

// WeightsOf returns the weights of a node with these labels, by the Refs of groups. Of several weights
// the largest counts. A group without an entry gives the node no weight.
func (gs Groups) WeightsOf(node map[string]string) map[string]int {
	var weights map[string]int
	for _, g := range gs.Usable {
		for _, n := range g.Nodes {
			if n.Selector.Matches(labels.Set(node)) && n.Weight > weights[g.Ref()] {
				if weights == nil {
					weights = map[string]int{}
				}
				weights[g.Ref()] = n.Weight
			}
		}
	}
	return weights
}

// Boundary says which Services a group is for.
type Boundary struct {
	// Namespaces are the namespaces that the group lists by name.
	Namespaces []string
	// NamespaceSelector selects further namespaces by their labels, and
	// ServiceSelector selects Services. Each is nil if the group has none.
	NamespaceSelector, ServiceSelector labels.Selector
	// Enforce says that Services of other namespaces get no address of the group, and
	// that Services of these namespaces get addresses only of groups that serve them.
	Enforce bool
	// Default makes this group the group of choice if several groups are for a Service.
	Default bool
	// Priority orders the groups that are for a Service, the highest first. It is nil
	// if the group has none.
	Priority *int32
	// ByName says that only Services that name the group get addresses from it
	// (autoAssign: false).
	ByName bool
}

// BindsNamespaces reports whether the group is for certain namespaces.
func (b Boundary) BindsNamespaces() bool { return len(b.Namespaces) > 0 || b.NamespaceSelector != nil }

// Ref is the unique name of the group: the name of the object, with the namespace in front
// if that is not the install namespace of PureLB.
func (g Group) Ref() string { return g.Qualified(g.Name) }

// DisplayName is the name by which people know the group, with the namespace in front if
// Ref has it. The annotation allocated-from shows it.
func (g Group) DisplayName() string { return g.Qualified(cmp.Or(g.Alias, g.Name)) }

// Qualified returns name in the form in which users name a group in the namespace of g.
func (g Group) Qualified(name string) string {
	if g.Outside {
		return g.Namespace + "/" + name
	}
	return name
}

// Mask returns the length of the mask that an address of family f from the backend of g
// has on the dummy interface.
func (g Group) Mask(f addr.Family) int { return cmp.Or(g.Masks[f], f.Bits()) }

// HasFamily reports whether g has a pool of family f, or a backend, which may have such
// addresses.
func (g Group) HasFamily(f addr.Family) bool {
	return g.Backend != "" || slices.ContainsFunc(g.Pools, func(p Pool) bool { return p.Family() == f })
}

// PoolOf returns the pool of g that contains a.
func (g Group) PoolOf(a netip.Addr) (Pool, bool) {
	for _, p := range g.Pools {
		if p.Contains(a) {
			return p, true
		}
	}
	return Pool{}, false
}

// Groups are the ServiceGroups of a cluster. They do not change once they are made, so
// readers share them without a lock.
type Groups struct {
	// Usable are the groups that give addresses, the oldest first.
	Usable []Group
	// Enforced are the boundaries of all ServiceGroups that enforce them, the oldest
	// first. They include those of refused groups, because a mistake elsewhere in a
	// group must not open its boundary. A boundary whose selector cannot be read
	// has its Namespaces only.
	Enforced []Boundary
	// Refused are the groups that give no addresses, sorted by namespace and name.
	Refused []RefusedGroup

	lookup *lookup
}

// RefusedGroup is a ServiceGroup that gives no addresses.
type RefusedGroup struct {
	Namespace, Name string
	// OutOfScope says that PureLB ignores the ServiceGroups of the namespace.
	OutOfScope bool
	// Reason and Message are those of the condition of the group. Message says how to
	// correct it.
	Reason, Message string
}

// New returns Groups with these usable ones. all are the usable and the refused
// groups: a refused group keeps its names, so that they mean no other group.
func New(usable, all []Group, enforced []Boundary, refused []RefusedGroup) Groups {
	refused = slices.SortedStableFunc(slices.Values(refused), func(a, b RefusedGroup) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return Groups{Usable: usable, Enforced: enforced, Refused: refused, lookup: &lookup{newNames(usable, all), newIndex(usable), all}}
}

// Without returns gs, but with further groups refused.
func (gs Groups) Without(refused []RefusedGroup) Groups {
	usable := slices.DeleteFunc(slices.Clone(gs.Usable), func(g Group) bool {
		return slices.ContainsFunc(refused, func(r RefusedGroup) bool { return r.Namespace == g.Namespace && r.Name == g.Name })
	})
	all := gs.Usable
	if gs.lookup != nil {
		all = gs.lookup.all
	}
	return New(usable, all, gs.Enforced, slices.Concat(gs.Refused, refused))
}

// OnNodes returns gs for a cluster whose nodes have these subnets and addresses. A pool
// that overlaps a network of a node is not virtual, whatever its group says: its addresses
// are on the interfaces of nodes.
func (gs Groups) OnNodes(subnets []netip.Prefix, addresses []netip.Addr) Groups {
	gs.Usable = slices.Clone(gs.Usable)
	for i := range gs.Usable {
		pools := slices.Clone(gs.Usable[i].Pools)
		for j, p := range pools {
			pools[j].Virtual = p.Virtual && !slices.ContainsFunc(subnets, p.Subnet.Overlaps) && !slices.ContainsFunc(addresses, p.Subnet.Contains)
		}
		gs.Usable[i].Pools = pools
	}
	return gs
}
