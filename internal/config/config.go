// Package config turns the custom resources of a cluster into one validated value and a list of
// problems.
//
// It knows the ServiceGroups and LBNodeAgents of every generation of the API, their
// defaults, and how they must fit together. It also knows the contents of the
// Secret with the gossip keys. It knows nothing of Services, of the API server or
// of a node's interfaces: it returns plain data for the allocator, the node agent
// and the command line.
//
// Read the files in this order:
//
//	config.go     the result
//	for.go        For reads everything; scope.go says in which namespaces
//	problem.go    what is wrong with an object, and how serious that is
//	group.go      one ServiceGroup: its addresses (pools.go, ranges.go), which Services may use it
//	              (boundary.go), and the system that manages its addresses (backend.go, netbox.go)
//	admission.go  which groups can be used together; order.go says which of them comes first
//	networks.go   groups beside the networks of the cluster and its nodes
//	agent.go      LBNodeAgents; address.go reads the attributes of their addresses
//	gossip.go     the Secret with the keys of the gossip
package config

import (
	"net/netip"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"purelb.io/purelb/internal/groups"
)

// Config is the usable part of what the custom resources say. It is immutable:
// readers share it without locking.
type Config struct {
	// Groups are all ServiceGroups. Each refused group has the reason.
	Groups groups.Groups
	// Backends are the backends of the usable groups, in the order of the groups.
	Backends []Backend
	// Agents are the usable LBNodeAgents. Agents with a node selector come first, then agents that
	// match every node. Both are sorted by namespace and name.
	Agents []Agent
	// Broken are the LBNodeAgents that select nodes but cannot be used, sorted
	// like Agents. See BrokenFor.
	Broken []Agent
	// Problems has one entry for each object and cause. They are sorted by kind, namespace and name
	// of the object.
	Problems []Problem
}

// Agent is an LBNodeAgent. It selects nodes, and names the interfaces on which they announce.
type Agent struct {
	Namespace, Name string
	// Outside says that Namespace is not the one that PureLB is installed in.
	Outside bool
	UID     types.UID
	// Selector matches the labels of the nodes that this Agent is for.
	Selector labels.Selector
	// Implied says that spec.local is missing. Such an LBNodeAgent sets nothing: the nodes that no
	// other LBNodeAgent selects use the defaults.
	Implied bool
	// Local matches the whole names of the interfaces that carry local addresses.
	// Nil means the interface of the default route of each family or, if All is
	// set, every interface that leads to a network.
	Local *regexp.Regexp
	All   bool
	// LocalText is the text of Local as the user wrote it, or "default" or "all".
	LocalText string
	// Interfaces are exact names of further interfaces for local addresses,
	// in order of preference.
	Interfaces []string
	// Networks are further networks in which the nodes announce local addresses, on the first interface
	// that carries local addresses.
	Networks []netip.Prefix
	// Dummy is the name of the interface that carries remote addresses.
	Dummy string
	// ProtectNode closes the ports of the node itself at the addresses of Services.
	ProtectNode   bool
	LocalAddress  AddressOptions
	RemoteAddress AddressOptions
	GARP          GARP
}

// AddressOptions are the attributes that an address gets in the kernel.
type AddressOptions struct {
	// Valid is the lifetime. 0 means for ever.
	Valid time.Duration
	// Preferred is how long the kernel may choose the address as a source, at most
	// Valid. If Valid is 0, then 0 means for ever. Otherwise it means never.
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
	// Count is the number of packets, Interval apart.
	Count    int
	Interval time.Duration
	// Verify asks before each packet whether the address is still ours.
	Verify bool
}
