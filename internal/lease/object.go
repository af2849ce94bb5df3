package lease

import (
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
	// AnnotationInstance is the UID of the pod that renews the Lease.
	AnnotationInstance = "purelb.io/instance"
	// AnnotationAgent is the LBNodeAgent in force, "namespace/name".
	AnnotationAgent = "purelb.io/lbnodeagent"
	// AnnotationProblem says why the node announces nothing or less than it
	// should; it is absent when all is well.
	AnnotationProblem = "purelb.io/problem"
)

// Selector selects the Leases of node agents.
const Selector = "app.kubernetes.io/name=purelb,app.kubernetes.io/component=lbnodeagent"

// maxSubnets is how many networks of one Lease are read, whoever wrote it.
const maxSubnets = 256

// Record is what a node agent says of its node.
type Record struct {
	// NodeUID is the UID of the Node, which owns the Lease.
	NodeUID types.UID
	Subnets []netip.Prefix
	// Agent is the LBNodeAgent in force, "namespace/name", or "".
	Agent string
	// Problem is what keeps the node from announcing, or "".
	Problem string
}

// equal says whether r and s have the same text.
func (r Record) equal(s Record) bool {
	return r.NodeUID == s.NodeUID && r.Agent == s.Agent && r.Problem == s.Problem && slices.Equal(r.Subnets, s.Subnets)
}

// write writes what this node says, and that it says it now, into o.
func (l *Leases) write(o *coordinationv1.Lease, r Record, now time.Time) {
	o.Name = Prefix + l.opt.Node
	o.Labels = merged(o.Labels, map[string]string{
		"app.kubernetes.io/name":      "purelb",
		"app.kubernetes.io/component": "lbnodeagent",
	})
	o.Annotations = merged(o.Annotations, map[string]string{
		AnnotationSubnets:  formatSubnets(r.Subnets),
		AnnotationInstance: l.opt.Instance,
		AnnotationAgent:    r.Agent,
		AnnotationProblem:  r.Problem,
	})
	if r.Problem == "" {
		delete(o.Annotations, AnnotationProblem)
	}
	o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: l.opt.Node, UID: r.NodeUID}}
	seconds := int32(l.opt.Duration / time.Second)
	o.Spec = coordinationv1.LeaseSpec{
		HolderIdentity:       &l.opt.Node,
		LeaseDurationSeconds: &seconds,
		RenewTime:            &metav1.MicroTime{Time: now},
	}
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

// formatSubnets writes subnets as the annotation has them.
func formatSubnets(subnets []netip.Prefix) string {
	texts := make([]string, len(subnets))
	for i, s := range subnets {
		texts[i] = s.String()
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
