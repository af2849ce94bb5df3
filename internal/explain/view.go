package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/allocate/census"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/nodes/lease"
	"purelb.io/purelb/internal/service"
)

// view is a World with the results of the decision packages.
type view struct {
	World
	state census.State
	// held is the cluster with the addresses that Services have. plan also has those that they
	// will get.
	held  ipam.Cluster
	plan  census.Plan
	nodes []node
	peers election.Peers
	// outlooks holds the Outlooks of the addresses of each Service, in its order.
	outlooks map[string][]announce.Outlook
	// objects holds the Services, has holds their addresses, and requests what they ask for, by key.
	objects  map[string]*corev1.Service
	has      map[string][]netip.Addr
	requests map[string]service.Request
}

// node is the content of a node's Lease.
type node struct {
	election.Leased
	agent, problem, draining string
	// renewed and expires are times of the node's clock, or zero if the Lease has none.
	renewed, expires time.Time
	// gossip is the address of the node for gossip, or invalid. lasts is how long its Lease is
	// valid, or 0 if the Lease does not tell.
	gossip netip.AddrPort
	lasts  time.Duration
}

func newView(w World) *view {
	v := &view{World: w, state: census.Of(w.Objects), objects: map[string]*corev1.Service{}, has: map[string][]netip.Addr{}, requests: map[string]service.Request{}}
	if v.Guessed {
		v.state.Config.Guessed(fmt.Sprintf("That PureLB is installed in %q is a guess; --purelb-namespace names another", v.Namespace))
	}
	if v.state.Namespaces == nil { // No group selects namespaces by their labels.
		v.Unread = slices.DeleteFunc(slices.Clone(v.Unread), func(u Unread) bool { return u.Kind == KindNamespaces })
	}
	var requests []service.Request
	for i := range v.Services {
		svc := &v.Services[i]
		v.objects[svc.Namespace+"/"+svc.Name] = svc
		requests = append(requests, w.Rules.Read(svc))
	}
	v.held, _ = v.state.Holdings(requests)
	for _, r := range requests {
		v.has[r.Key()] = v.held.Store.Held(ipam.Owner(r.Key()))
	}
	v.plan = v.state.Plan(requests)
	for _, r := range v.plan.Requests {
		v.requests[r.Key()] = r
	}
	v.readNodes()
	v.outlooks = v.foresee(v.peers.Members)
	return v
}

// readNodes reads the Leases. The election treats them as an agent would that has watched them for
// a while.
func (v *view) readNodes() {
	e := election.Evidence{LeasesTrusted: true, Settled: true, Contact: v.Now}
	for i := range v.Leases {
		n := readLease(&v.Leases[i], v.Now)
		v.nodes = append(v.nodes, n)
	}
	slices.SortFunc(v.nodes, func(a, b node) int { return cmp.Compare(a.Node, b.Node) })
	for _, n := range v.nodes {
		e.Leases = append(e.Leases, n.Leased)
	}
	v.peers = election.Merge(e, v.Now)
}

// readLease reads o at the time now. If now is zero, every Lease is valid.
func readLease(o *coordinationv1.Lease, now time.Time) node {
	n := node{Leased: lease.Read(o), gossip: lease.Gossip(o), agent: o.Annotations[lease.AnnotationAgent], problem: o.Annotations[lease.AnnotationProblem], draining: o.Annotations[lease.AnnotationDraining]}
	if s := o.Spec.LeaseDurationSeconds; s != nil {
		n.lasts = time.Duration(*s) * time.Second
	}
	if o.Spec.RenewTime != nil {
		n.renewed = o.Spec.RenewTime.Time
		n.expires = n.renewed.Add(n.lasts)
	}
	n.Alive = now.IsZero() || now.Before(n.expires)
	if n.Alive {
		n.Renewed = cmp.Or(n.renewed, now)
	}
	return n
}

// foresee returns what these members do with the addresses of Services.
func (v *view) foresee(members []election.Member) map[string][]announce.Outlook {
	s := announce.Situation{Complete: true, Config: v.state.Config, Peers: v.peers}
	s.Peers.Members = members
	known := v.knows(KindEndpoints)
	wanted := map[string]bool{}
	for i := range v.Services {
		svc, ours := announce.Read(&v.Services[i])
		if !ours {
			continue
		}
		s.Services = append(s.Services, svc)
		if known {
			wanted[svc.Key] = true
		}
	}
	s.Endpoints, s.Ending = announce.EndpointNodes(v.EndpointSlices, wanted)
	of := map[string][]announce.Outlook{}
	for _, o := range announce.Foresee(s) {
		of[o.Service] = append(of[o.Service], o)
	}
	return of
}

// addresses returns the Outlooks of all addresses, those of the oldest Service first.
func (v *view) addresses() (all []announce.Outlook) {
	for _, r := range v.plan.Requests {
		all = append(all, v.outlooks[r.Key()]...)
	}
	return all
}

// find returns the first of all that is meant, or nil.
func find[T any](all []T, meant func(T) bool) *T {
	if i := slices.IndexFunc(all, meant); i >= 0 {
		return &all[i]
	}
	return nil
}

// leased returns the content of a node's Lease, or nil.
func (v *view) leased(name string) *node {
	return find(v.nodes, func(n node) bool { return n.Node == name })
}

// lives reports whether a node has a valid Lease.
func (v *view) lives(name string) bool {
	n := v.leased(name)
	return n != nil && n.Alive
}

// nodeObject returns the Node of that name, or nil.
func (v *view) nodeObject(name string) *corev1.Node {
	return find(v.Nodes, func(n corev1.Node) bool { return n.Name == name })
}

// labelsOf returns the labels of a node, or nil if it is not known.
func (v *view) labelsOf(node string) map[string]string {
	if n := v.nodeObject(node); n != nil {
		return n.Labels
	}
	return nil
}

// slots returns the nodes that announce the local addresses of svc, by its annotations.
func slots(svc *corev1.Service) []service.Slot {
	return append(service.ParseSlots(svc.Annotations[service.AnnotationAnnouncingIPv4]),
		service.ParseSlots(svc.Annotations[service.AnnotationAnnouncingIPv6])...)
}

// group returns the group of a, or "". An address of a backend is in the group that the
// Service names.
func (v *view) group(a netip.Addr, from string) string {
	if g, _, ok := v.state.Config.Groups.GroupOf(a); ok {
		return g.DisplayName()
	}
	return from
}

// texts returns values as texts.
func texts[T fmt.Stringer](values []T) (all []string) {
	for _, v := range values {
		all = append(all, v.String())
	}
	return all
}

// joined joins values with commas.
func joined[T fmt.Stringer](values []T) string { return strings.Join(texts(values), ", ") }

// NeedsEndpoints reports whether the announcements of nodes in w depend on the endpoints of
// Services.
func NeedsEndpoints(w World) bool {
	c := config.For(w.Groups, w.Agents, w.Namespace, w.ConfigNamespaces...)
	if slices.ContainsFunc(c.Groups.Usable, func(g groups.Group) bool { return g.WithdrawIdle }) {
		return true
	}
	return slices.ContainsFunc(w.Services, func(o corev1.Service) bool {
		svc, ours := announce.Read(&o)
		return ours && (svc.Affinity || svc.AllowLocal && svc.LocalPolicy)
	})
}
