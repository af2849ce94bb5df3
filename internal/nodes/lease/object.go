package lease

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Prefix is the prefix of the names of node Leases.
const Prefix = "purelb-node-"

// Annotations of a Lease.
const (
	// AnnotationSubnets are the networks from which the node can announce local addresses,
	// as comma-separated CIDRs.
	AnnotationSubnets = "purelb.io/subnets"
	// AnnotationAddresses are the node's own addresses, separated by commas. No Service may
	// have one of them, on any node.
	AnnotationAddresses = "purelb.io/node-addresses"
	// AnnotationGateways are the routers of the node's default routes, separated by commas.
	// It is absent if there are none, and agents of earlier versions do not write it. No
	// Service may have one of them.
	AnnotationGateways = "purelb.io/gateways"
	// AnnotationMACs are the Ethernet addresses by which the node answers, separated by
	// commas. Agents of earlier versions do not write it.
	AnnotationMACs = "purelb.io/node-macs"
	// AnnotationClaims are the addresses that the agent heard other machines
	// claim or answer for, each with the machine, as comma-separated
	// "address=MAC", or "address=MAC=node" if the machine is another node of
	// the cluster; it is absent when there are none.
	AnnotationClaims = "purelb.io/claimed-addresses"
	// AnnotationUnable are the addresses of Services that the node cannot add, or that do not stay
	// there, separated by commas. It is absent if there are none.
	AnnotationUnable = "purelb.io/unable-addresses"
	// AnnotationWeights are the weights of the node for the groups that prefer some nodes, as
	// comma-separated "group=weight". It is absent if there are none.
	AnnotationWeights = "purelb.io/node-weights"
	// AnnotationInstance is the UID of the pod that renews the Lease.
	AnnotationInstance = "purelb.io/instance"
	// AnnotationAgent is the LBNodeAgent in force, "namespace/name".
	AnnotationAgent = "purelb.io/lbnodeagent"
	// AnnotationProblem says why the node announces nothing, or less than it should. It is
	// absent if all is well.
	AnnotationProblem = "purelb.io/problem"
	// AnnotationDraining says why other nodes should be preferred to this one. It is absent
	// if there is no reason.
	AnnotationDraining = "purelb.io/draining"
	// AnnotationGossip is the gossip address of the node, "address:port". It is absent if
	// the node does not gossip.
	AnnotationGossip = "purelb.io/gossip"
)

// Selector selects the Leases of node agents.
const Selector = "app.kubernetes.io/name=purelb,app.kubernetes.io/component=lbnodeagent"

// These limits apply to each Lease that is read. The limits for gateways, MACs and unable addresses
// also apply to a Lease that is written.
const maxSubnets, maxAddresses, maxGateways, maxMACs, maxUnable, maxWeights = 256, 1024, 64, 64, 64, 1024

// MaxClaims is the largest number of claims that one Lease may carry.
const MaxClaims = 64

// Record is what a node agent announces about its node.
type Record struct {
	// NodeUID is the UID of the Node, which owns the Lease.
	NodeUID types.UID
	Subnets []netip.Prefix
	// Addresses are the node's own addresses.
	Addresses []netip.Addr
	// Gateways are the routers of its default routes. The Lease carries only the first 64.
	Gateways []netip.Addr
	// MACs are the Ethernet addresses of the node. Claims are the claims that it heard from
	// other machines: nil leaves those of the agent before in the Lease. The Lease carries only the first 64
	// of each.
	MACs   []MAC
	Claims []Claim
	// Unable are the addresses that the node cannot have. The Lease carries only the first 64.
	Unable []netip.Addr
	// Weights are the weights of the node, by the Refs of groups.
	Weights map[string]int
	// Agent is the LBNodeAgent in force, "namespace/name", or "".
	Agent string
	// Problem is the reason why the node announces nothing or too little, or "".
	Problem string
	// Draining is the reason to prefer other nodes, or "".
	Draining string
	// Gossip is the gossip address of the node, or the zero value if it does not gossip.
	Gossip netip.AddrPort
}

// Digest returns a number that changes with the part of r that other agents read from the
// Lease and not from gossip alone. It is never 0.
func (r Record) Digest() uint64 {
	return digest(join(r.Subnets), join(r.Addresses), join(r.MACs[:min(len(r.MACs), maxMACs)]), join(r.Unable[:min(len(r.Unable), maxUnable)]), weightsText(r.Weights), r.Agent)
}

// digest computes Record.Digest from the annotations of a Lease. Other agents need only know
// whether there is an LBNodeAgent. Agents of earlier versions do not know the weights.
func digest(subnets, addresses, macs, unable, weights, agent string) uint64 {
	configured := agent != ""
	text := fmt.Appendf(nil, "%s\n%s\n%s\n%t", subnets, addresses, macs, configured)
	if unable != "" {
		text = fmt.Append(text, "\n"+unable)
	}
	if weights != "" {
		text = fmt.Append(text, "\nweights "+weights)
	}
	sum := sha256.Sum256(text)
	return max(binary.BigEndian.Uint64(sum[:]), 1)
}

// Equal reports whether r and s have the same contents.
func (r Record) Equal(s Record) bool {
	return reflect.DeepEqual(r, s)
}

// write writes r into o, with the renewal time now and this duration.
func (l *Leases) write(o *coordinationv1.Lease, r Record, duration time.Duration, now time.Time) {
	o.Name = Prefix + l.opt.Node
	metav1.SetMetaDataLabel(&o.ObjectMeta, "app.kubernetes.io/name", "purelb")
	metav1.SetMetaDataLabel(&o.ObjectMeta, "app.kubernetes.io/component", "lbnodeagent")
	for name, value := range map[string]string{
		AnnotationSubnets:   join(r.Subnets),
		AnnotationAddresses: join(r.Addresses),
		AnnotationMACs:      join(r.MACs[:min(len(r.MACs), maxMACs)]),
		AnnotationInstance:  l.opt.Instance,
		AnnotationAgent:     r.Agent,
	} {
		metav1.SetMetaDataAnnotation(&o.ObjectMeta, name, value)
	}
	texts := map[string]string{
		AnnotationGateways: join(r.Gateways[:min(len(r.Gateways), maxGateways)]),
		AnnotationUnable:   join(r.Unable[:min(len(r.Unable), maxUnable)]),
		AnnotationWeights:  weightsText(r.Weights),
		AnnotationProblem:  r.Problem,
		AnnotationDraining: r.Draining,
	}
	if texts[AnnotationGossip] = ""; r.Gossip.IsValid() {
		texts[AnnotationGossip] = r.Gossip.String()
	}
	if r.Claims != nil {
		texts[AnnotationClaims] = join(r.Claims[:min(len(r.Claims), MaxClaims)])
	}
	for name, value := range texts {
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

// durationOf returns the duration of o, or fallback if o has none.
func durationOf(o *coordinationv1.Lease, fallback time.Duration) time.Duration {
	if s := o.Spec.LeaseDurationSeconds; s != nil && *s > 0 {
		return time.Duration(*s) * time.Second
	}
	return fallback
}

// join writes values in the form of an annotation.
func join[T fmt.Stringer](values []T) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = v.String()
	}
	return strings.Join(texts, ",")
}

// weightsText writes weights in the form of the annotation.
func weightsText(weights map[string]int) string {
	var entries []string
	for _, group := range slices.Sorted(maps.Keys(weights)) {
		if len(entries) < maxWeights {
			entries = append(entries, fmt.Sprintf("%s=%d", group, weights[group]))
		}
	}
	return strings.Join(entries, ",")
}

// Weights returns the weights of a node for groups, by its Lease. It skips entries that are mistakes.
func Weights(o *coordinationv1.Lease) map[string]int {
	var weights map[string]int
	for part := range strings.SplitSeq(o.Annotations[AnnotationWeights], ",") {
		group, number, _ := strings.Cut(strings.TrimSpace(part), "=")
		weight, err := strconv.Atoi(number)
		if err != nil || group == "" || weight < 1 || len(weights) == maxWeights {
			continue
		}
		if weights == nil {
			weights = map[string]int{}
		}
		weights[group] = weight
	}
	return weights
}

// list reads up to most values of an annotation, which are separated by commas. It skips entries that it cannot
// parse, because one bad entry must not take the others from the node.
func list[T any](text string, most int, parse func(string) (T, bool)) (values []T) {
	for part := range strings.SplitSeq(text, ",") {
		if one, ok := parse(strings.TrimSpace(part)); ok && len(values) < most {
			values = append(values, one)
		}
	}
	return values
}

func parseSubnet(text string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err == nil
}

func parseAddress(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	return a.Unmap().WithZone(""), err == nil
}
