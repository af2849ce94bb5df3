package allocator

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/lease"
)

// groupStatus is what the status of g should say. used is nil when g is not in
// use; subnets are the networks of the nodes.
func groupStatus(g *v2.ServiceGroup, problems []config.Problem, used *usage, subnets []netip.Prefix, now time.Time) v2.ServiceGroupStatus {
	s := v2.ServiceGroupStatus{Conditions: slices.Clone(g.Status.Conditions)}
	fine := "Services get addresses from this group"
	if used != nil {
		fine += nowhere(used.group, subnets)
		s.Announce, s.IPAM = string(used.group.Announce), "Cluster"
		s.Addresses = ranges(used.group)
		s.AllocatedIPv4, s.AllocatedIPv6 = used.inUse[addr.V4], used.inUse[addr.V6]
		s.AvailableIPv4, s.AvailableIPv6 = count(used.free, addr.V4), count(used.free, addr.V6)
	}
	set(&s.Conditions, accepted(problems, fine), g.Generation, now)
	return s
}

// nowhere says which addresses of g nobody announces, because they are for
// networks of nodes and no node is there. If no node has a network at all, that
// is for the LBNodeAgents to say.
func nowhere(g config.Group, subnets []netip.Prefix) string {
	if g.Announce != config.AnnounceLocal || len(subnets) == 0 {
		return ""
	}
	var lost []string
	for _, p := range g.Pools {
		if !slices.ContainsFunc(subnets, p.Subnet.Overlaps) && !slices.Contains(lost, p.Subnet.String()) {
			lost = append(lost, p.Subnet.String())
		}
	}
	if len(lost) == 0 {
		return ""
	}
	return "; but no node announces those in " + strings.Join(lost, ", ") + ", because none has an interface there: " +
		"correct the subnet, have an LBNodeAgent use the interfaces that are there, or make the group a remote one"
}

// ranges are the pools of g as they were written, IPv4 first.
func ranges(g config.Group) []string {
	pools := slices.Clone(g.Pools)
	var texts []string
	for _, f := range []addr.Family{addr.V4, addr.V6} {
		for _, p := range pools {
			if p.Family() == f {
				texts = append(texts, p.Text)
			}
		}
	}
	return texts
}

// count is that of a family which a group has.
func count(counts map[addr.Family]int64, f addr.Family) *int64 {
	n, ok := counts[f]
	if !ok {
		return nil
	}
	return &n
}

// agentStatus is what the status of a should say: whether it counts, and how
// the nodes that use it fare.
func agentStatus(a *v2.LBNodeAgent, problems []config.Problem, leases []coordinationv1.Lease, now time.Time) v2.LBNodeAgentStatus {
	s := v2.LBNodeAgentStatus{Conditions: slices.Clone(a.Status.Conditions)}
	set(&s.Conditions, accepted(problems, "nodes that this LBNodeAgent selects use it"), a.Generation, now)
	set(&s.Conditions, announcing(a, leases), a.Generation, now)
	return s
}

// accepted is the condition of an object with these problems.
func accepted(problems []config.Problem, fine string) metav1.Condition {
	c := metav1.Condition{
		Type: v2.ConditionAccepted, Status: metav1.ConditionTrue, Reason: config.ReasonAccepted, Message: fine,
	}
	var messages []string
	for _, p := range problems {
		if p.Severity == config.Refused && c.Status == metav1.ConditionTrue {
			c.Status, c.Reason = metav1.ConditionFalse, p.Reason
		}
		messages = append(messages, p.String())
	}
	if len(messages) > 0 {
		c.Message = clip(strings.Join(messages, "; "), mostMessage)
	}
	return c
}

// announcing is the condition that tells which nodes cannot announce with a.
func announcing(a *v2.LBNodeAgent, leases []coordinationv1.Lease) metav1.Condition {
	c := metav1.Condition{Type: v2.ConditionAnnouncing, Status: metav1.ConditionTrue, Reason: "Announcing"}
	var nodes int
	var troubles []string
	for _, l := range leases {
		if l.Annotations[lease.AnnotationAgent] != a.Namespace+"/"+a.Name {
			continue
		}
		nodes++
		if trouble := l.Annotations[lease.AnnotationProblem]; trouble != "" {
			troubles = append(troubles, strings.TrimPrefix(l.Name, lease.Prefix)+": "+trouble)
		}
	}
	slices.Sort(troubles)
	switch {
	case nodes == 0:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, "NoNodes",
			"no node uses this LBNodeAgent: its nodeSelector matches none, or another LBNodeAgent takes precedence on those that it matches"
	case len(troubles) > 0:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, troubleReason(troubles), clip(strings.Join(troubles, "; "), mostMessage)
	default:
		c.Message = fmt.Sprintf("all nodes that use this LBNodeAgent can announce (%d)", nodes)
	}
	return c
}

// troubleReason is a word for troubles.
func troubleReason(troubles []string) string {
	for _, t := range troubles {
		if !strings.Contains(strings.ToLower(t), "no interface") {
			return "NodeProblem"
		}
	}
	return "NoInterface"
}

// set puts c into conditions; its time of transition is now if its status is
// new.
func set(conditions *[]metav1.Condition, c metav1.Condition, generation int64, now time.Time) {
	c.ObservedGeneration, c.LastTransitionTime = generation, metav1.NewTime(now)
	meta.SetStatusCondition(conditions, c)
}

// clip cuts text to what the API server takes.
func clip(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// mostMessage and mostNote are how long the texts of conditions and of events
// may be.
const (
	mostMessage = 8192
	mostNote    = 1024
)

// byUID returns the problems of each object, the worst first.
func byUID(problems []config.Problem) map[types.UID][]config.Problem {
	of := map[types.UID][]config.Problem{}
	for _, p := range problems {
		of[p.UID] = append(of[p.UID], p)
	}
	for _, ps := range of {
		slices.SortStableFunc(ps, func(a, b config.Problem) int { return cmp.Compare(a.Severity, b.Severity) })
	}
	return of
}
