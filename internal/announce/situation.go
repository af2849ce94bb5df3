package announce

import (
	"iter"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/service"
)

// Service is a Service whose addresses PureLB announces.
type Service struct {
	// Key is "namespace/name".
	Key       string
	Addresses []netip.Addr
	// Slots name the nodes that announce the local addresses.
	Slots []service.Slot
	// PoolType is the kind of the addresses at their allocation. From names the groups that
	// gave them, separated by commas.
	PoolType, From string
	// LocalPolicy says that only nodes with a ready endpoint take traffic.
	LocalPolicy bool
	// HealthPort is the port at which kube-proxy tells of the endpoints on its node, or 0. Services
	// with LocalPolicy have one.
	HealthPort uint16
	// AllowLocal keeps LocalPolicy for local addresses: only nodes with a ready endpoint may
	// have one.
	AllowLocal bool
	// Selector is the pod selector of a Service that shares its addresses, in a canonical
	// text, or "".
	Selector string
	// Affinity says that nodes with a ready endpoint are preferred.
	Affinity bool
	// Node is the node that should have the local addresses, or "".
	Node        string
	SkipIPv6DAD bool
	// Adopt says that its user asks PureLB to adopt its addresses from another controller.
	Adopt bool
}

// ServiceFamily is a Service and one family: endpoints of the other family get no traffic for
// addresses of this one.
type ServiceFamily struct {
	// Service is the Key of the Service.
	Service string
	Family  addr.Family
}

// of returns the ServiceFamily of svc with the family of ip.
func (svc Service) of(ip netip.Addr) ServiceFamily {
	return ServiceFamily{svc.Key, addr.FamilyOf(ip)}
}

// Endpoints holds the nodes on which Services have endpoints, sorted. An endpoint outside of
// the cluster has the node "".
type Endpoints map[ServiceFamily][]string

// AnnotationNodeAffinity is set on a Service by its user. affinityEndpoints is its only
// value: nodes with a ready endpoint are preferred.
const (
	AnnotationNodeAffinity = "purelb.io/node-affinity"
	affinityEndpoints      = "service-endpoints"
)

// Read reads svc. ok is false for a Service that PureLB does not announce. The result has
// only those addresses that PureLB gave. If another program has emptied the status, they stay.
//
// Agents need not know the default announcer: the allocator removes the record from a Service
// that it leaves to another controller.
func Read(svc *corev1.Service) (s Service, ok bool) {
	owned := service.OwnershipOf(svc, true)
	if owned.Owner == service.Anothers || len(owned.Vouched) == 0 {
		return Service{}, false
	}
	given, _ := service.RecordOf(svc)
	_, allowLocal := svc.Annotations[service.AnnotationAllowLocal]
	return Service{
		Key:       svc.Namespace + "/" + svc.Name,
		Addresses: owned.Shown,
		Slots: append(service.ParseSlots(svc.Annotations[service.AnnotationAnnouncingIPv4]),
			service.ParseSlots(svc.Annotations[service.AnnotationAnnouncingIPv6])...),
		PoolType:    given.PoolType,
		From:        given.From,
		LocalPolicy: service.LocalPolicy(svc),
		HealthPort:  uint16(svc.Spec.HealthCheckNodePort),
		AllowLocal:  allowLocal,
		Selector:    service.Selector(svc),
		Affinity:    svc.Annotations[AnnotationNodeAffinity] == affinityEndpoints,
		Node:        strings.TrimSpace(svc.Annotations[service.AnnotationNode]),
		SkipIPv6DAD: given.SkipIPv6DAD,
		Adopt:       service.AsksAdoption(svc),
	}, true
}

// backendGroups returns the groups with a backend among those that gave s its addresses.
func (s Service) backendGroups(gs groups.Groups) iter.Seq[groups.Group] {
	return func(yield func(groups.Group) bool) {
		for name := range strings.SplitSeq(s.From, ",") {
			if g, ok := gs.Group(strings.TrimSpace(name)); ok && g.Backend != "" && !yield(g) {
				return
			}
		}
	}
}

// Situation is everything that a decision depends on.
type Situation struct {
	// Self is the name of this node.
	Self string
	// Complete says that Services, Config and Agent are all seen. As long as it is false, or
	// Peers are not trusted, this node keeps its addresses and takes none.
	Complete bool
	Services []Service
	Config   config.Config
	// Agent is the LBNodeAgent in force on this node, or nil. Broken says that there is one
	// that cannot be used.
	Agent  *config.Agent
	Broken bool
	Node   Node
	// NodeAddresses are the addresses of this node in Kubernetes.
	NodeAddresses []netip.Addr
	// Held holds the local addresses that this agent has had until now, and their links.
	Held map[netip.Addr]string
	// HeldRemote holds the addresses that this agent has had on the dummy interface until now, and
	// the name of that link. It is set only on a kernel without marks.
	HeldRemote map[netip.Addr]string
	Peers      election.Peers
	// Endpoints are the nodes that should get traffic: those with a ready endpoint, and for a
	// while those whose endpoints end. A missing Service means that its endpoints are not
	// known yet. Nil means that the agent does not look for endpoints. Then Affinity,
	// AllowLocal with LocalPolicy, and groups that withdraw idle addresses have no effect.
	Endpoints Endpoints
	// Ending are the nodes with no ready endpoint of a Service, but with one that ends and
	// still serves, for any time.
	Ending Endpoints
	// Idle holds the Idleness of the Services whose addresses are withdrawn while they have no
	// endpoint.
	Idle map[ServiceFamily]Idleness
	// Waits says that this node takes no address: its kube-proxy has not worked since the node started.
	Waits bool
	// Unserved are the Services with the policy Local that have a ready endpoint on this node which
	// its kube-proxy does not serve yet.
	Unserved map[ServiceFamily]bool
	// Offered holds the nodes that ask this one to take an address. Given holds the nodes that gave an
	// address to this one and are still in its slot.
	Offered map[netip.Addr][]string
	Given   map[netip.Addr]string
	// Returning is the address that goes back to the node that should have it, or the zero value: see
	// Returns.
	Returning netip.Addr
	// Contested are addresses that are on this node and that another machine claims too.
	Contested map[netip.Addr]bool
}

// Sure reports whether this node knows everything that decisions depend on.
func (s Situation) Sure() bool { return s.Complete && s.Peers.Trusted }
