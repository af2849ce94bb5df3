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
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"purelb.io/purelb/internal/ipam"
)

// Config is everything that the custom resources say, as far as it is usable.
// It is immutable once made: readers share it without locking.
type Config struct {
	// Groups are the ServiceGroups, those that are refused with the reason.
	Groups ipam.Groups
	// Backends are those of the usable groups that have one, in the order of the groups.
	Backends []Backend
	// Agents are the usable LBNodeAgents: those with a node selector first,
	// then those that match every node, each sorted by namespace and name.
	Agents []Agent
	// Broken are the LBNodeAgents that select nodes but cannot be used, sorted
	// like Agents. See BrokenFor.
	Broken []Agent
	// Problems are what is wrong, one entry per object and cause, in the
	// order of the objects' kind, namespace and name.
	Problems []Problem
}

// Agent is an LBNodeAgent: what the node agents that it selects announce on.
type Agent struct {
	Namespace, Name string
	// Outside says that Namespace is not the one that PureLB is installed in.
	Outside    bool
	UID        types.UID
	Generation int64
	// Selector matches the labels of the nodes that this Agent is for.
	Selector labels.Selector
	// Implied says that spec.local is missing: the LBNodeAgent asks for nothing, and
	// a node has the defaults if no other is for it.
	Implied bool
	// Local matches the whole names of the interfaces that carry local
	// addresses; nil means the interface of the default route of each family, or
	// with All every interface that leads to a network.
	Local *regexp.Regexp
	All   bool
	// LocalText is what Local was written as, or "default" or "all".
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
