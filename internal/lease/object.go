package lease

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Prefix is what the name of the Lease of a node begins with.
const Prefix = "purelb-node-"

// Annotations of a Lease.
const (
	// AnnotationSubnets are the networks that the node can announce local
	// addresses of, as comma-separated CIDRs.
	AnnotationSubnets = "purelb.io/subnets"
	// AnnotationAddresses are the addresses that the node has itself, comma
	// separated. No Service may have one of them, on whichever node.
	AnnotationAddresses = "purelb.io/node-addresses"
	// AnnotationGateways are the routers that the default routes of the node
	// lead to, comma separated; it is absent when there are none, and agents of
	// earlier versions do not write it. No Service may have one of them.
	AnnotationGateways = "purelb.io/gateways"
	// AnnotationMACs are the Ethernet addresses by which the node answers, comma
	// separated. Agents of earlier versions do not write it.
	AnnotationMACs = "purelb.io/node-macs"
	// AnnotationClaims are the addresses that the agent heard other machines
	// claim or answer for, each with the machine, as comma-separated
	// "address=MAC", or "address=MAC=node" if the machine is another node of
	// the cluster; it is absent when there are none.
	AnnotationClaims = "purelb.io/claimed-addresses"
	// AnnotationInstance is the UID of the pod that renews the Lease.
	AnnotationInstance = "purelb.io/instance"
	// AnnotationAgent is the LBNodeAgent in force, "namespace/name".
	AnnotationAgent = "purelb.io/lbnodeagent"
	// AnnotationProblem says why the node announces nothing or less than it
	// should; it is absent when all is well.
	AnnotationProblem = "purelb.io/problem"
	// AnnotationDraining says why the node should be chosen only when there
	// is no other; it is absent when there is no reason.
	AnnotationDraining = "purelb.io/draining"
	// AnnotationGossip is where the node gossips, "address:port"; it is
	// absent where it does not.
	AnnotationGossip = "purelb.io/gossip"
)

// Selector selects the Leases of node agents.
const Selector = "app.kubernetes.io/name=purelb,app.kubernetes.io/component=lbnodeagent"

// These are how many networks, addresses, gateways and MACs of one Lease are read,
// whoever wrote it. Of gateways and MACs no more are written.
const maxSubnets, maxAddresses, maxGateways, maxMACs = 256, 1024, 64, 64

// MaxClaims is how many claims of one Lease are written and read.
const MaxClaims = 64

// Record is what a node agent says of its node.
type Record struct {
	// NodeUID is the UID of the Node, which owns the Lease.
	NodeUID types.UID
	Subnets []netip.Prefix
	// Addresses are the node's own.
	Addresses []netip.Addr
	// Gateways are the routers of its default routes. Only the first 64 are
	// written.
	Gateways []netip.Addr
	// MACs are the Ethernet addresses of the node, and Claims what was heard of
	// other machines. Only the first 64 of each are written.
	MACs   []MAC
	Claims []Claim
	// Agent is the LBNodeAgent in force, "namespace/name", or "".
	Agent string
	// Problem is what keeps the node from announcing, or "".
	Problem string
	// Draining is why the node should be chosen only when there is no other,
	// or "".
	Draining string
}

// Equal says whether r and s have the same text.
func (r Record) Equal(s Record) bool {
	return r.NodeUID == s.NodeUID && r.Agent == s.Agent && r.Problem == s.Problem && r.Draining == s.Draining &&
		slices.Equal(r.Subnets, s.Subnets) && slices.Equal(r.Addresses, s.Addresses) &&
		slices.Equal(r.Gateways, s.Gateways) && slices.Equal(r.MACs, s.MACs) && slices.Equal(r.Claims, s.Claims)
}

// write writes what this node says, that it says it now and for how long it
// counts, into o.
func (l *Leases) write(o *coordinationv1.Lease, r Record, duration time.Duration, now time.Time) {
	o.Name = Prefix + l.opt.Node
	o.Labels = merged(o.Labels, map[string]string{
		"app.kubernetes.io/name":      "purelb",
		"app.kubernetes.io/component": "lbnodeagent",
	})
	o.Annotations = merged(o.Annotations, map[string]string{
		AnnotationSubnets:   join(r.Subnets),
		AnnotationAddresses: join(r.Addresses),
		AnnotationMACs:      join(r.MACs[:min(len(r.MACs), maxMACs)]),
		AnnotationInstance:  l.opt.Instance,
		AnnotationAgent:     r.Agent,
	})
	for name, value := range map[string]string{
		AnnotationGateways: join(r.Gateways[:min(len(r.Gateways), maxGateways)]),
		AnnotationClaims:   join(r.Claims[:min(len(r.Claims), MaxClaims)]),
		AnnotationProblem:  r.Problem,
		AnnotationDraining: r.Draining,
		AnnotationGossip:   whereOf(l.opt.Gossip),
	} {
		if value == "" {
			delete(o.Annotations, name)
		} else {
			o.Annotations[name] = value
		}
	}
	o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: l.opt.Node, UID: r.NodeUID}}
	seconds := int32(duration / time.Second)
	o.Spec = coordinationv1.LeaseSpec{
		HolderIdentity:       &l.opt.Node,
		LeaseDurationSeconds: &seconds,
		RenewTime:            &metav1.MicroTime{Time: now},
	}
}

// whereOf returns the text of a place, "" for none.
func whereOf(place netip.AddrPort) string {
	if !place.IsValid() {
		return ""
	}
	return place.String()
}

// merged returns the entries of both, those of b where they differ.
func merged(a, b map[string]string) map[string]string {
	m := maps.Clone(a)
	if m == nil {
		m = map[string]string{}
	}
	maps.Copy(m, b)
	return m
}

// nodeOf returns the node that o is the Lease of.
func nodeOf(o *coordinationv1.Lease) (node string, ok bool) {
	node, ok = strings.CutPrefix(o.Name, Prefix)
	return node, ok && node != ""
}

// versionOf returns what only the holder of o changes, with each renewal.
func versionOf(o *coordinationv1.Lease) string {
	if o.Spec.RenewTime == nil {
		return ""
	}
	return o.Spec.RenewTime.UTC().Format(time.RFC3339Nano)
}

// durationOf returns how long o counts, or or when it does not say.
func durationOf(o *coordinationv1.Lease, or time.Duration) time.Duration {
	if s := o.Spec.LeaseDurationSeconds; s != nil && *s > 0 {
		return time.Duration(*s) * time.Second
	}
	return or
}

// join writes values as an annotation has them.
func join[T fmt.Stringer](values []T) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = v.String()
	}
	return strings.Join(texts, ",")
}

// parseSubnets reads the annotation. What is not a CIDR is passed over: one bad
// entry must not take the node's other networks away.
func parseSubnets(text string) []netip.Prefix {
	var subnets []netip.Prefix
	for part := range strings.SplitSeq(text, ",") {
		if p, err := netip.ParsePrefix(strings.TrimSpace(part)); err == nil && len(subnets) < maxSubnets {
			subnets = append(subnets, p.Masked())
		}
	}
	return subnets
}

// parseAddresses reads at most most addresses of an annotation in the same way.
func parseAddresses(text string, most int) []netip.Addr {
	var addresses []netip.Addr
	for part := range strings.SplitSeq(text, ",") {
		if a, err := netip.ParseAddr(strings.TrimSpace(part)); err == nil && len(addresses) < most {
			addresses = append(addresses, a.Unmap().WithZone(""))
		}
	}
	return addresses
}
