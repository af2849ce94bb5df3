package allocator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/lease"
)

// agentStatus is what the status of a should say: whether it counts, and how
// the nodes that use it fare.
func agentStatus(a *v2.LBNodeAgent, problems []config.Problem, leases []coordinationv1.Lease, now time.Time) v2.LBNodeAgentStatus {
	s := v2.LBNodeAgentStatus{Conditions: slices.Clone(a.Status.Conditions)}
	set(&s.Conditions, accepted(problems, "nodes that this LBNodeAgent selects use it"), a.Generation, now)
	set(&s.Conditions, announcing(a, leases), a.Generation, now)
	return s
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
