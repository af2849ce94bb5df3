package peering

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
)

// Reasons of conditions.
const (
	ReasonAllHealthy           = "AllHealthy"
	ReasonDegraded             = "Degraded"
	ReasonAgentShutdown        = "AgentShutdown"
	ReasonNotConfigured        = "NotConfigured"
	ReasonReconcileSuccess     = "ReconcileSuccess"
	ReasonPending              = "Pending"
	ReasonConfigurationInvalid = "ConfigurationInvalid"
	ReasonResolved             = "Resolved"
	ReasonResolutionFailed     = "ResolutionFailed"
)

// mostInMessage limits the problems in a message.
const mostInMessage = 20

// condition returns a condition without its time.
func condition(kind string, status bool, reason, message string) metav1.Condition {
	out := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	if status {
		out.Status = metav1.ConditionTrue
	}
	return out
}

// conditions sets the time since which each condition has its status.
func conditions(previous []metav1.Condition, now metav1.Time, all ...metav1.Condition) []metav1.Condition {
	for i := range all {
		all[i].LastTransitionTime = now
	}
	KeepTimes(all, previous)
	return all
}

// KeepTimes copies the transition time of each earlier condition that has the same status.
func KeepTimes(conditions, before []metav1.Condition) {
	for i := range conditions {
		c := &conditions[i]
		for _, b := range before {
			if b.Type == c.Type && b.Status == c.Status && !b.LastTransitionTime.IsZero() {
				c.LastTransitionTime = b.LastTransitionTime
			}
		}
	}
}

// listed returns the beginning of a list in words.
func listed(all []string) string {
	said, more := first(all, mostInMessage)
	text := strings.Join(said, "; ")
	if more {
		text += fmt.Sprintf("; and %d more", len(all)-mostInMessage)
	}
	return text
}

func (in Report) ready(failures []string) metav1.Condition {
	const kind = bgpv1.ConditionReady
	switch {
	case in.Leaving:
		return condition(kind, false, ReasonAgentShutdown, "the speaker of the node has ended")
	case len(failures) > 0:
		return condition(kind, false, ReasonDegraded, listed(failures))
	case in.Unconfigured:
		return condition(kind, true, ReasonNotConfigured, "there is no BGPConfiguration for this node, so it does not speak BGP")
	}
	up := 0
	for _, n := range in.Neighbors {
		if n.State == Established {
			up++
		}
	}
	message := fmt.Sprintf("%d neighbor(s) established", up)
	if in.Decision.Import.Enabled {
		message += ", netlinkImport active"
	}
	if len(in.Decision.State.Peers) == 0 {
		message = "no neighbor is configured for this node"
	}
	if in.Withdrawn != "" {
		message += ", all routes are withdrawn: " + in.Withdrawn
	}
	return condition(kind, true, ReasonAllHealthy, message)
}

func (in Report) configured() metav1.Condition {
	const kind = bgpv1.ConditionConfigured
	problems := texts(slices.Concat(in.Decision.Problems, in.Unapplied))
	var pending []string
	if !in.Pending.IsZero() {
		pending = []string{"the change ends sessions, and takes effect at " + in.Pending.UTC().Format(time.RFC3339)}
	}
	switch {
	case in.Unconfigured:
		return condition(kind, false, ReasonNotConfigured, "there is no BGPConfiguration for this node")
	case len(problems) > 0:
		return condition(kind, false, ReasonConfigurationInvalid, listed(slices.Concat(pending, problems)))
	case len(pending) > 0:
		return condition(kind, false, ReasonPending, listed(pending))
	}
	return condition(kind, true, ReasonReconcileSuccess, "all of the BGPConfiguration is in effect on this node")
}

func texts(problems []Problem) []string {
	var all []string
	for _, p := range problems {
		all = append(all, p.String())
	}
	return all
}

func (in Report) resolved() metav1.Condition {
	const kind = bgpv1.ConditionRouterIDResolved
	if in.Unconfigured {
		return condition(kind, false, ReasonNotConfigured, "there is no BGPConfiguration for this node")
	}
	if failed := ofRouterID(in.Decision.Problems); len(failed) > 0 {
		return condition(kind, false, ReasonResolutionFailed, listed(texts(failed)))
	}
	return condition(kind, true, ReasonResolved, fmt.Sprintf("%s, by %s", text(in.Decision.State.Global.RouterID), in.Decision.RouterIDSource))
}

func ofRouterID(problems []Problem) []Problem {
	return slices.DeleteFunc(slices.Clone(problems), func(p Problem) bool { return p.Reason != ReasonRouterID })
}

// Differs reports whether b has information that a does not have. It ignores the time of writing.
// It also ignores how many prefixes neighbors announce, because that can change all the time. It
// compares only whether they announce any.
func Differs(a, b bgpv1.BGPNodeStatusStatus) bool {
	return !equality.Semantic.DeepEqual(still(a), still(b))
}

// still returns s without the values that change by themselves.
func still(s bgpv1.BGPNodeStatusStatus) bgpv1.BGPNodeStatusStatus {
	out := *s.DeepCopy()
	out.LastUpdated = nil
	for i := range out.Neighbors {
		n := &out.Neighbors[i]
		n.PrefixesReceived = min(n.PrefixesReceived, 1)
	}
	if out.RIB != nil {
		out.RIB.ReceivedRouteCount = min(out.RIB.ReceivedRouteCount, 1)
	}
	return out
}

// ConfigurationStatus returns the status of a BGPConfiguration with the problems that every node
// has: those that are not Here. A time in the status changes only with its subject.
func ConfigurationStatus(generation int64, d Decision, previous bgpv1.BGPConfigurationStatus, now time.Time) bgpv1.BGPConfigurationStatus {
	common := slices.DeleteFunc(slices.Clone(d.Problems), func(p Problem) bool { return p.Here })
	ready := condition(bgpv1.ConditionReady, true, ReasonReconcileSuccess, "the configuration is valid; the BGPNodeStatus of each node says what is in effect there")
	if len(common) > 0 {
		ready = condition(bgpv1.ConditionReady, false, ReasonConfigurationInvalid, listed(texts(common)))
	}
	resolved := condition(bgpv1.ConditionRouterIDResolved, true, ReasonResolved, "each node finds its own; see its BGPNodeStatus")
	if failed := ofRouterID(common); len(failed) > 0 {
		resolved = condition(bgpv1.ConditionRouterIDResolved, false, ReasonResolutionFailed, listed(texts(failed)))
	}
	return configurationStatus(generation, d.Configured, previous, now, ready, resolved)
}

// configurationStatus returns a status with these conditions. Its message is that of the first one.
func configurationStatus(generation int64, neighbors int, previous bgpv1.BGPConfigurationStatus, now time.Time, all ...metav1.Condition) bgpv1.BGPConfigurationStatus {
	stamp := metav1.NewTime(now.Truncate(time.Second))
	for i := range all {
		all[i].ObservedGeneration = generation
	}
	out := bgpv1.BGPConfigurationStatus{
		ObservedGeneration: generation,
		Conditions:         conditions(previous.Conditions, stamp, all...),
		LastReconcileTime:  previous.LastReconcileTime,
		NeighborCount:      int32(neighbors),
		Message:            all[0].Message,
	}
	if out.LastReconcileTime == nil || !equality.Semantic.DeepEqual(out, previous) {
		out.LastReconcileTime = &stamp
	}
	return out
}
