// Package config turns the custom resources of a cluster into one validated
// value and the list of what is wrong with them.
//
// It knows the ServiceGroups and LBNodeAgents of every generation of the API,
// their defaults, and how they must fit together, and what the Secret of the
// agents' gossip holds. It knows nothing of Services, of the API server or of a
// node's interfaces: what it returns is plain data that the allocator, the node
// agent and the command line read alike.
package config

import (
	"net/netip"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"purelb.io/purelb/internal/pool"
)

// Config is everything that the custom resources say, as far as it is usable.
// It is immutable once made: readers share it without locking.
type Config struct {
	// Groups are the usable ServiceGroups, the oldest first.
	Groups []Group
	// Agents are the usable LBNodeAgents: those with a node selector first,
	// then those that match every node, each sorted by namespace and name.
	Agents []Agent
	// Broken are the LBNodeAgents that select nodes but cannot be used, sorted
	// like Agents. See BrokenFor.
	Broken []Agent
	// Problems are what is wrong, one entry per object and cause, in the
	// order of the objects' kind, namespace and name.
	Problems []Problem
	// Fences are the boundaries of all ServiceGroups of the install namespace
	// that enforce them, also of those that are refused, the oldest first: a
	// mistake elsewhere in a group must not open its fence. One whose selector
	// cannot be read has its Namespaces only.
	Fences []Boundary

	lookup *lookup
}

// Announce says where the addresses of a group are announced.
type Announce string

const (
	// AnnounceLocal addresses live on the interface of one elected node of
	// their subnet, and nowhere when no node has the subnet.
	AnnounceLocal Announce = "Local"
	// AnnounceRemote addresses live on the dummy interface of every node.
	AnnounceRemote Announce = "Remote"
	// AnnounceAuto is the rule of the v1 API: local when a node has the
	// subnet, otherwise remote.
	AnnounceAuto Announce = "Auto"
)

// Group is a ServiceGroup that addresses can be allocated from.
type Group struct {
	Namespace, Name string
	UID             types.UID
	Generation      int64
	// Alias is spec.name of the flat v1 form, or "" when there is none or when
	// it belongs to another group. Services may name the group by it, and it
	// is what allocated-from shows.
	Alias    string
	Announce Announce
	// Pools are in the order in which they are tried: the arrays in
	// declaration order, then the single pool; v4 before v6.
	Pools       []pool.Pool
	SkipIPv6DAD bool
	// MultiPool gives a Service one address of every pool; BalancePools
	// takes them from the pool with the fewest in use. Not both.
	MultiPool, BalancePools bool
	// SharedAcrossNamespaces lets Services of different namespaces share an
	// address; otherwise those of one namespace may.
	SharedAcrossNamespaces bool
	Boundary
}

// Boundary says which Services a group is for.
type Boundary struct {
	// Namespaces are those listed by name.
	Namespaces []string
	// NamespaceSelector matches the labels of further namespaces, and
	// ServiceSelector those of Services; nil when there is none.
	NamespaceSelector, ServiceSelector labels.Selector
	// Enforce keeps Services of other namespaces out, and those of these
	// namespaces in.
	Enforce bool
	// Default makes this the group of choice where several are for the same
	// Service.
	Default bool
	// Priority orders groups that are for the same Service, the highest
	// first; nil when none is written.
	Priority *int32
	// ByName says that only Services which name the group get addresses from
	// it (autoAssign: false).
	ByName bool
}

// Agent is an LBNodeAgent: what the node agents that it selects announce on.
type Agent struct {
	Namespace, Name string
	UID             types.UID
	Generation      int64
	// Selector matches the labels of the nodes that this Agent is for.
	Selector labels.Selector
	// Local matches the whole names of the interfaces that carry local
	// addresses; nil means the interface of the default route of each family.
	Local *regexp.Regexp
	// LocalText is what Local was written as, or "default".
	LocalText string
	// Interfaces are exact names of further interfaces for local addresses,
	// in order of preference.
	Interfaces []string
	// Dummy is the name of the interface that carries remote addresses.
	Dummy         string
	LocalAddress  AddressOptions
	RemoteAddress AddressOptions
	GARP          GARP
}

// AddressOptions are the attributes that an address gets in the kernel.
type AddressOptions struct {
	// Valid is the lifetime, 0 for ever.
	Valid time.Duration
	// Preferred is for how long the address may be chosen as a source: at most
	// Valid. 0 means for ever when Valid does, otherwise not at all.
	Preferred time.Duration
	// NoPrefixRoute keeps the kernel from adding the connected route.
	NoPrefixRoute bool
}

// GARP is the schedule of gratuitous ARP and unsolicited Neighbor
// Advertisements after an address was added (RFC 5227 section 2.3, RFC 4861
// section 7.2.6).
type GARP struct {
	Enabled bool
	// InitialDelay is the time from adding the address to the first packet.
	InitialDelay time.Duration
	// Count is how many are sent, Interval apart.
	Count    int
	Interval time.Duration
	// Verify asks before each packet whether the address is still ours.
	Verify bool
}

// DisplayName is the name by which people know the group: what the
// allocated-from annotation of its Services shows.
func (g Group) DisplayName() string {
	if g.Alias != "" {
		return g.Alias
	}
	return g.Name
}

// PoolOf returns the pool of g that contains a.
func (g Group) PoolOf(a netip.Addr) (pool.Pool, bool) {
	for _, p := range g.Pools {
		if p.Contains(a) {
			return p, true
		}
	}
	return pool.Pool{}, false
}
