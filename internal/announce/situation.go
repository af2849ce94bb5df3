package announce

import (
	"iter"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/election"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/service"
)

// Service is a Service that is to be announced.
type Service struct {
	// Key is "namespace/name".
	Key       string
	Addresses []netip.Addr
	// Slots say who announces the local ones.
	Slots []service.Slot
	// PoolType is what the addresses were when they were allocated, and From are the
	// groups that gave them, separated by commas.
	PoolType, From string
	// LocalPolicy says that only nodes with a ready endpoint take traffic.
	LocalPolicy bool
	// AllowLocal keeps LocalPolicy for local addresses: only nodes with a
	// ready endpoint may have one.
	AllowLocal bool
	// Selector is that of a Service that shares its addresses, as text that is
	// the same for the same selector, or "".
	Selector string
	// Affinity says that nodes with a ready endpoint come before others.
	Affinity    bool
	SkipIPv6DAD bool
}

// ServiceFamily is a Service as far as it serves one family: its endpoints of the other
// one get no traffic for addresses of this one.
type ServiceFamily struct {
	// Service is the Key of the Service.
	Service string
	Family  addr.Family
}

// of is svc as far as it serves the family of ip.
func (svc Service) of(ip netip.Addr) ServiceFamily {
	return ServiceFamily{svc.Key, addr.FamilyOf(ip)}
}

// Endpoints are the nodes on which Services have endpoints, sorted. The node of an endpoint
// outside of the cluster is "".
type Endpoints map[ServiceFamily][]string

// AnnotationNodeAffinity is set on a Service by its user; affinityEndpoints is its
// only value: nodes with a ready endpoint come before others.
const (
	AnnotationNodeAffinity = "purelb.io/node-affinity"
	affinityEndpoints      = "service-endpoints"
)

// Read reads svc; ok is false for one that is not ours to announce. Of its addresses
// it returns those that PureLB gave.
//
// Agents need not know the default announcer: the allocator takes the brand off a
// Service that it leaves to another controller.
func Read(svc *corev1.Service) (s Service, ok bool) {
	owned := service.OwnershipOf(svc, true)
	if owned.Owner == service.Anothers || !service.Branded(svc) {
		return Service{}, false
	}
	_, allowLocal := svc.Annotations[service.AnnotationAllowLocal]
	return Service{
		Key:       svc.Namespace + "/" + svc.Name,
		Addresses: owned.Shown,
		Slots: append(service.ParseSlots(svc.Annotations[service.AnnotationAnnouncingIPv4]),
			service.ParseSlots(svc.Annotations[service.AnnotationAnnouncingIPv6])...),
		PoolType:    svc.Annotations[service.AnnotationPoolType],
		From:        svc.Annotations[service.AnnotationAllocatedFrom],
		LocalPolicy: service.LocalPolicy(svc),
		AllowLocal:  allowLocal,
		Selector:    service.Selector(svc),
		Affinity:    svc.Annotations[AnnotationNodeAffinity] == affinityEndpoints,
		SkipIPv6DAD: svc.Annotations[service.AnnotationSkipIPv6DAD] == "true",
	}, true
}

// backendGroups returns those of the groups that gave s its addresses that have a backend.
func (s Service) backendGroups(groups ipam.Groups) iter.Seq[ipam.Group] {
	return func(yield func(ipam.Group) bool) {
		for name := range strings.SplitSeq(s.From, ",") {
			if g, ok := groups.Group(strings.TrimSpace(name)); ok && g.Backend != "" && !yield(g) {
				return
			}
		}
	}
}

// Situation is everything that a decision depends on.
type Situation struct {
	// Self is the name of this node.
	Self string
	// Complete says that Services, Config and Agent are all that there is to
	// know. As long as it is false, or Peers are not trusted, this node keeps
	// what it has and takes nothing.
	Complete bool
	Services []Service
	Config   config.Config
	// Agent is the one in force on this node, nil when there is none. Broken
	// says that there would be one if it could be used.
	Agent  *config.Agent
	Broken bool
	Node   Node
	// Held are the local addresses that this agent has had until now, and their
	// links.
	Held map[netip.Addr]string
	// HeldRemote are the addresses that this agent has had on the dummy interface until
	// now. It is kept only on a kernel without marks.
	HeldRemote map[netip.Addr]bool
	Peers      election.Peers
	// Contests, if set, remembers from one Situation to the next who won which address.
	Contests *election.Contests
	// Answering are the nodes that gossip does not hear, and that answered on the wire
	// since this node is cut off. It is all of them if this node reaches no machine.
	Answering map[string]bool
	// Endpoints are the nodes that should get traffic: those with a ready endpoint, and
	// for a while those whose endpoints end. Endpoints that it does not mention are not
	// known yet. Nil says that the agent does not look for endpoints, and then Affinity,
	// AllowLocal with LocalPolicy, and groups that withdraw idle addresses have no effect.
	Endpoints Endpoints
	// Ending are the nodes with no ready endpoint of a Service, but one that
	// ends and serves still, however long since.
	Ending Endpoints
	// Idle is what IdleDamping says of the Services whose addresses are withdrawn while
	// they have no endpoint.
	Idle map[ServiceFamily]Idleness
	// Contested are addresses that are on this node, and that another machine
	// claims too.
	Contested map[netip.Addr]bool
}
