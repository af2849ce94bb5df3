package allocate

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/census"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/nodes/lease"
)

// groupStatus returns the status that g should have. used is nil if g is not in use.
func groupStatus(g *v2.ServiceGroup, problems []config.Problem, used *usage, around clusterState, now time.Time) v2.ServiceGroupStatus {
	s := v2.ServiceGroupStatus{Conditions: slices.Clone(g.Status.Conditions)}
	fine := "Services get addresses from this group"
	if used != nil {
		fine += nowhere(used.group, around.Subnets) + byDefault(g.Spec)
		s.Announce, s.IPAM = string(used.group.Announce), cmp.Or(used.group.Backend, "Cluster")
		s.Addresses = ranges(used.group)
		if used.group.Backend != "" {
			s.Backend, s.Addresses = backendStatus(*used), nil
			if used.backend != nil {
				s.Addresses = used.backend.Ranges
			}
		}
		s.AllocatedIPv4, s.AllocatedIPv6 = used.inUse[addr.V4], used.inUse[addr.V6]
		s.AvailableIPv4, s.AvailableIPv6 = count(used.free, addr.V4), count(used.free, addr.V6)
		s.BoundNamespaces = bound(used.group.Boundary, around.Namespaces)
	}
	set(&s.Conditions, accepted(problems, fine), g.Generation, now)
	for _, f := range []addr.Family{addr.V4, addr.V6} {
		set(&s.Conditions, exhausted(used, f), g.Generation, now)
	}
	set(&s.Conditions, backendReady(used), g.Generation, now)
	return s
}

// byDefault names the default that holds if a manifest of the group leaves out local.announce. The
// two versions of the API have different ones, and the stored one stays when a manifest of the
// other version is applied.
func byDefault(spec v2.ServiceGroupSpec) string {
	if spec.Local == nil || spec.Local.Announce != v2.AnnounceAuto {
		return ""
	}
	return "; spec.local.announce is auto, the default of purelb.io/v1, and stays so if a v2 manifest without announce is applied"
}

// backendStatus returns the state of the backend of a group.
func backendStatus(used usage) *v2.BackendStatus {
	b := &v2.BackendStatus{Name: used.group.Backend}
	known := used.backend
	if known == nil {
		return b
	}
	b.Name = cmp.Or(known.Backend, b.Name)
	b.Orphans, b.Unregistered, b.Warnings = int32(known.Orphans), int32(known.Missing), known.Warnings
	if !known.Reached.IsZero() {
		b.LastReached = &metav1.Time{Time: known.Reached.Truncate(time.Second)}
	}
	if known.Known {
		b.SizeIPv4, b.SizeIPv6 = count(known.Size, addr.V4), count(known.Size, addr.V6)
	}
	return b
}

// backendReady returns the condition that tells whether the backend of a group works. The
// condition of a group without a backend has no status.
func backendReady(used *usage) metav1.Condition {
	c := metav1.Condition{Type: v2.ConditionBackendReady}
	switch {
	case used == nil || used.group.Backend == "":
	case used.backend == nil || used.backend.Fault == nil && used.backend.Reached.IsZero():
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, "NotReached", used.group.Backend+" has not answered yet"
	case used.backend.Fault != nil:
		c.Status, c.Reason = metav1.ConditionFalse, string(used.backend.Fault.Kind)
		c.Message = clip(used.backend.Fault.Message+"; Services keep their addresses, and those that wait are served when it works again", mostMessage)
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "Reached", cmp.Or(used.backend.Backend, used.group.Backend)+" works"
	}
	return c
}

// bound returns the namespaces that b is for: first those that it lists, in its order, then
// the others that its selector matches.
func bound(b groups.Boundary, namespaces map[string]map[string]string) []string {
	all := slices.Clone(b.Namespaces)
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		if b.NamespaceSelector != nil && b.NamespaceSelector.Matches(labels.Set(namespaces[name])) && !slices.Contains(b.Namespaces, name) {
			all = append(all, name)
		}
	}
	return all[:min(len(all), mostBound)]
}

// exhausted returns the condition that tells whether a group in use has a free address of
// f. If the group has no pool of f, the condition has no status.
func exhausted(used *usage, f addr.Family) metav1.Condition {
	c := metav1.Condition{Type: exhaustion[f]}
	if used == nil {
		return c
	}
	free, has := used.free[f]
	drained := !slices.ContainsFunc(used.group.Pools, func(p groups.Pool) bool { return p.Family() == f && !p.Draining })
	switch {
	case !has:
	case free == 0 && used.group.Backend != "":
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "Exhausted", fmt.Sprintf(
			"%s has no free %s address for the group: give it more there, or remove Services that hold one", used.group.Backend, f)
	case free > 0:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "Available", fmt.Sprintf("there are free %s addresses", f)
	case drained:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "Draining", fmt.Sprintf(
			"all ranges of %s addresses are being drained, so Services get none: remove drain from one, or add another", f)
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "Exhausted", fmt.Sprintf(
			"no %s address is free: add a range, or remove Services that hold one", f)
	}
	return c
}

// exhaustion is the type of the condition of each family.
var exhaustion = map[addr.Family]string{addr.V4: v2.ConditionIPv4Exhausted, addr.V6: v2.ConditionIPv6Exhausted}

// nowhere names the networks of g whose addresses no node announces, because no node has an
// interface there. It returns "" when no node has any network, because the status of the
// LBNodeAgents reports that.
func nowhere(g groups.Group, subnets []netip.Prefix) string {
	if len(subnets) == 0 {
		return ""
	}
	var lost []string
	for _, p := range census.Unreached(g, subnets) {
		if !slices.Contains(lost, p.Subnet.String()) {
			lost = append(lost, p.Subnet.String())
		}
	}
	if len(lost) == 0 {
		return ""
	}
	return "; but no node announces those in " + strings.Join(lost, ", ") + ", because none has an interface there: " +
		"correct the subnet, have an LBNodeAgent use the interfaces that are there, or make the group a remote one"
}

// ranges returns the pools of g as the user wrote them, IPv4 first.
func ranges(g groups.Group) []string {
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

// count returns the count of family f, at most the largest int64, or nil if there is none.
func count[N int64 | uint64](counts map[addr.Family]N, f addr.Family) *int64 {
	n, ok := counts[f]
	if !ok {
		return nil
	}
	known := int64(min(uint64(n), math.MaxInt64))
	return &known
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

// set puts c into conditions, or removes it if it has no status. The time of transition is now if the
// status of the condition has changed.
func set(conditions *[]metav1.Condition, c metav1.Condition, generation int64, now time.Time) {
	if c.Status == "" {
		meta.RemoveStatusCondition(conditions, c.Type)
		return
	}
	c.ObservedGeneration, c.LastTransitionTime = generation, metav1.NewTime(now)
	meta.SetStatusCondition(conditions, c)
}

// clip cuts text to a length that the API server accepts.
func clip(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

const (
	// mostMessage is the maximum length of the message of a condition.
	mostMessage = 8192
	// mostBound is the maximum number of namespaces in the status of a group.
	mostBound = 1000
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

// agentStatus returns the status that a should have: whether it is accepted, and whether
// the nodes that use it can announce.
func agentStatus(a *v2.LBNodeAgent, problems []config.Problem, leases []coordinationv1.Lease, now time.Time) v2.LBNodeAgentStatus {
	s := v2.LBNodeAgentStatus{Conditions: slices.Clone(a.Status.Conditions)}
	set(&s.Conditions, accepted(problems, "nodes that this LBNodeAgent selects use it"), a.Generation, now)
	set(&s.Conditions, announcing(a, leases), a.Generation, now)
	return s
}

// announcing returns the condition that tells which nodes cannot announce with a.
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

// troubleReason returns the reason of the condition for troubles.
func troubleReason(troubles []string) string {
	for _, t := range troubles {
		if !strings.Contains(strings.ToLower(t), "no interface") {
			return "NodeProblem"
		}
	}
	return "NoInterface"
}
