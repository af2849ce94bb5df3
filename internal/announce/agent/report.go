package agent

import (
	"fmt"
	"iter"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/nodes/election"
)

// Reasons of events.
const (
	eventAnnouncingLocal    = "AnnouncingLocal"
	eventAnnouncingNonLocal = "AnnouncingNonLocal"
	eventWithdrawn          = "AddressWithdrawn"
	eventFailed             = "AnnouncementFailed"
	eventSlotSteal          = "AnnounceSlotSteal"
	eventConflict           = "AddressConflict"
	eventNotHeard           = "AddressNotHeard"
)

// reporter reports changes by log, event, metric and annotation. It remembers its reports, so
// that it reports nothing twice.
type reporter struct {
	node    string
	log     *slog.Logger
	events  Events
	metrics *Metrics

	// reported is nil before the first report. The addresses that are in place then are adopted,
	// and need no report.
	reported reports
	// quota limits the messages about addresses that are not here.
	quota quota
	// problems and subnets hold what was reported about the configuration.
	problems map[reportedProblem]bool
	subnets  string
}

// report reports what changed, and returns the annotations to write.
func (r *reporter) report(now time.Time, seen *observation, decisions []announce.Decision, done *announce.Outcome) map[string]Write {
	r.quota.turn(now, r.log, r.node)
	next, writes := make(reports, len(decisions)), map[string]Write{}
	var written []announce.Decision
	for of := range byService(decisions) {
		svc := seen.services[of[0].Service]
		written = written[:0]
		for i := range of {
			written = append(written, r.reportOne(now, seen, svc, &of[i], done, next))
		}
		if w, ok := r.write(svc, written); ok {
			writes[svc.Key] = w
		}
	}
	for s, f := range r.reported {
		if _, still := next[s]; !still {
			r.forget(s, f)
		}
	}
	r.metrics.forget(r.reported, next, seen.services)
	r.reported = next
	r.metrics.announced.show(r.node, next, len(done.Waiting))
	r.metrics.observe(seen)
	return writes
}

// reportOne reports what decision changed, records it in next, and returns the decision that the
// annotations of svc should show.
func (r *reporter) reportOne(now time.Time, seen *observation, svc *Service, decision *announce.Decision, done *announce.Outcome, next reports) announce.Decision {
	d, s := *decision, subject{decision.Service, decision.IP}
	before, known := r.before(s, svc)
	if done.Unfinished(d.IP) {
		if known {
			f := before.alone()
			_, f.waits = done.Waiting[d.IP]
			next[s] = f
		}
		return asWritten(svc, r.node, d)
	}
	f := fact{decision: decision, uid: svc.UID}
	if d.Where == announce.Nowhere {
		f.failure = d.Message
	}
	if err := done.Failed[d.IP]; err != nil {
		f.failure = err.Error()
		d.Where = announce.Nowhere
	}
	next[s] = f
	_, added := done.Added[d.IP]
	news := added || r.reported != nil
	switch {
	case d.Where == announce.Remote && before.here():
		news = false // it moved to another interface, on every node
	case d.Where == announce.Remote || d.Reason == announce.ReasonIdle && before.decided().Where == announce.Remote:
		news = news && r.speaks(now, seen, svc, d.IP)
	}
	r.reportChange(svc, f, before, news, before.here() || slices.Contains(done.Gone, d.IP))
	return d
}

// before returns the last report of s. A Service that was deleted and made again has none.
func (r *reporter) before(s subject, svc *Service) (f fact, known bool) {
	f, known = r.reported[s]
	if f.uid != svc.UID {
		return fact{}, false
	}
	return f, known
}

// speaks reports whether this node writes the event that it announces a remote address. All nodes
// announce it, and in a large cluster only a few of them write the event. A node that starts does
// not repeat an event that is older than recently. The time of the event comes from another
// machine, whose clock may differ.
func (r *reporter) speaks(now time.Time, seen *observation, svc *Service, ip netip.Addr) bool {
	if r.reported == nil && now.Sub(time.Unix(svc.given, 0)).Abs() > recently {
		return false
	}
	return election.Speaks(r.node, ip, announcers(seen, svc, ip))
}

// announcers returns the nodes that announce a remote address of svc. With the policy Local these
// are the nodes with an endpoint. If no node has an endpoint, these are all configured nodes.
func announcers(seen *observation, svc *Service, ip netip.Addr) []string {
	var all, narrowed []string
	with := seen.Endpoints[announce.ServiceFamily{Service: svc.Key, Family: addr.FamilyOf(ip)}]
	for _, m := range seen.Peers.Members {
		if m.Unconfigured {
			continue
		}
		all = append(all, m.Node)
		if _, has := slices.BinarySearch(with, m.Node); has && svc.LocalPolicy {
			narrowed = append(narrowed, m.Node)
		}
	}
	if len(narrowed) > 0 {
		return narrowed
	}
	return all
}

// recently is the time after a Service got an address in which a node that starts still writes an
// event about it.
const recently = 10 * time.Minute

// reportChange reports the difference between f and before. It writes events if news is true: an
// address that was found in place is no news. here says that the address was here until now.
func (r *reporter) reportChange(svc *Service, f, before fact, news, here bool) {
	d, was := f.decided(), before.decided()
	if w := was.Winner; w != "" && d.Winner != "" && w != d.Winner {
		r.metrics.winnerChanges.WithLabelValues(d.Service).Inc()
	}
	if d.Where == announce.Local && d.Because == election.ReasonAffinityFallback && was.Because != d.Because {
		r.metrics.affinityFallback.WithLabelValues(d.IP.String()).Inc()
	}
	switch {
	case f.failure != "":
		if f.failure != before.failure {
			r.reportFailure(svc, f, here)
		}
	case d.Where != announce.Nowhere:
		if was.Where != d.Where || was.Address.Link != d.Address.Link || before.failure != "" {
			r.reportAnnounced(svc, d, news)
		}
		if d.Message != was.Message {
			r.reportWarning(svc, d)
		}
	case here && d.Reason == announce.ReasonIdle:
		r.reportNotAnnounced(d, here)
		if news {
			r.events.Eventf(svc.ref(), corev1.EventTypeNormal, eventWithdrawn, "Node %s withdrew %s: %s", r.node, d.IP, d.Why())
		}
	case was.Service == "" || here || was.Reason != d.Reason:
		r.reportNotAnnounced(d, here)
	case was.Winner != d.Winner && d.Reason == announce.ReasonLostElection:
		r.metrics.losses.Inc()
	}
}

// reportAnnounced reports that this node announces an address.
func (r *reporter) reportAnnounced(svc *Service, d announce.Decision, news bool) {
	facts := []any{"service", d.Service, "address", d.IP, "node", r.node, "interface", d.Address.Link, "reason", d.Reason}
	if d.Where == announce.Remote {
		r.log.Info("announcingNonLocal", facts...)
		if news {
			r.events.Eventf(svc.ref(), corev1.EventTypeNormal, eventAnnouncingNonLocal,
				"Announcing %s from node %s interface %s", d.IP, r.node, d.Address.Link)
		}
		return
	}
	r.metrics.wins.Inc()
	r.log.Info("electionWon", facts...)
	if news {
		r.events.Eventf(svc.ref(), corev1.EventTypeNormal, eventAnnouncingLocal,
			"Node %s announcing %s on interface %s", r.node, d.IP, d.Address.Link)
	}
}

// reportWarning reports what is wrong with an address that this node announces nevertheless.
func (r *reporter) reportWarning(svc *Service, d announce.Decision) {
	if d.Message == "" {
		return
	}
	r.log.Warn("addressConflict", "service", d.Service, "address", d.IP, "node", r.node, "problem", d.Message)
	r.events.Eventf(svc.ref(), corev1.EventTypeWarning, eventConflict, "%s", d.Message)
}

// reportNotAnnounced reports that this node does not announce an address. here says that it did
// until now.
func (r *reporter) reportNotAnnounced(d announce.Decision, here bool) {
	facts := []any{"service", d.Service, "address", d.IP, "node", r.node, "reason", d.Reason, "winner", d.Winner}
	switch d.Reason {
	case announce.ReasonLostElection:
		r.metrics.losses.Inc()
		r.quota.info(r.log, "lostElection", facts...)
	case announce.ReasonNoInterface:
		r.quota.info(r.log, "noLocalInterface", facts...)
	case announce.ReasonNoKubeProxy:
		r.quota.info(r.log, "waitingForKubeProxy", facts...)
	case announce.ReasonUndecided:
	default:
		here = true // no message of its own says so
	}
	if here {
		r.quota.info(r.log, "withdrawAddress", facts...)
	}
}

// reportFailure reports that this node should announce an address, and cannot. here says that it
// did until now.
func (r *reporter) reportFailure(svc *Service, f fact, here bool) {
	d := f.decided()
	r.log.Warn("announcementFailed", "service", d.Service, "address", d.IP, "node", r.node,
		"interface", d.Address.Link, "reason", d.Reason, "error", f.failure)
	if d.Where == announce.Nowhere {
		if here {
			r.quota.info(r.log, "withdrawAddress", "service", d.Service, "address", d.IP, "node", r.node, "reason", d.Reason)
		}
		r.events.Eventf(svc.ref(), corev1.EventTypeWarning, eventFailed, "Node %s could not announce %s: %s", r.node, d.IP, f.failure)
		return
	}
	r.events.Eventf(svc.ref(), corev1.EventTypeWarning, eventFailed,
		"Node %s could not announce %s on interface %s: %s", r.node, d.IP, d.Address.Link, f.failure)
}

// forget reports that a Service no longer has an address.
func (r *reporter) forget(s subject, f fact) {
	if f.decided().Where != announce.Nowhere {
		r.quota.info(r.log, "withdrawAddress", "service", s.service, "address", s.ip, "node", r.node, "reason", "released")
	}
}

// stolen reports that this node took an address from another node.
func (r *reporter) stolen(svc *Service, from string, ip netip.Addr) {
	r.metrics.slotSteals.WithLabelValues(from, r.node).Inc()
	r.events.Eventf(svc.ref(), corev1.EventTypeNormal, eventSlotSteal, "Node %s took %s over from %s", r.node, ip, from)
}

// subject is one address of one Service.
type subject struct {
	service string
	ip      netip.Addr
}

// reports holds the last report of every subject. It is replaced, never changed.
type reports map[subject]fact

// fact is the reported state of a subject. The zero fact says that nothing was reported.
type fact struct {
	// decision points into a whole plan, which stays in memory as long as /state shows it.
	decision *announce.Decision
	// uid is the UID of the Service.
	uid types.UID
	// failure is why the address is not here although it should be.
	failure string
	// waits says that the address is not here now, whatever was reported: this node wants it, and
	// waits for another machine.
	waits bool
}

// decided returns the decision of f, or a zero one.
func (f fact) decided() announce.Decision {
	if f.decision == nil {
		return announce.Decision{}
	}
	return *f.decision
}

// here reports whether the address is on this node.
func (f fact) here() bool { return f.failure == "" && f.decided().Where != announce.Nowhere }

// alone returns f with a copy of its decision, so that it does not keep the whole plan in
// memory.
func (f fact) alone() fact {
	d := f.decided()
	return fact{decision: &d, uid: f.uid, failure: f.failure}
}

// byService returns the decisions of one Service after another.
func byService(decisions []announce.Decision) iter.Seq[[]announce.Decision] {
	return func(yield func([]announce.Decision) bool) {
		first := 0
		for i := range decisions {
			if i+1 < len(decisions) && decisions[i+1].Service == decisions[i].Service {
				continue
			}
			if !yield(decisions[first : i+1]) {
				return
			}
			first = i + 1
		}
	}
}

// Reasons of events about LBNodeAgents.
const (
	eventConfigError     = "ConfigError"
	eventConfigIgnored   = "ConfigIgnored"
	eventInvalidSelector = "InvalidNodeSelector"
	eventLinkSilent      = "InterfaceSilent"
	eventNoDummy         = "NoDummyInterface"
	eventProxySilent     = "KubeProxySilent"
)

// reportedProblem is a reported problem of the configuration.
type reportedProblem struct {
	about           corev1.ObjectReference
	reason, message string
}

// reportConfig reports the subnets of this node, and what is wrong with its configuration, if
// that changed.
func (r *reporter) reportConfig(seen *observation) {
	if !seen.Complete {
		return
	}
	if s := fmt.Sprint(seen.record.Subnets); s != r.subnets {
		r.subnets = s
		r.log.Info("subnetsChanged", "node", r.node, "subnets", seen.record.Subnets)
	}
	now := map[reportedProblem]bool{}
	for _, p := range r.problemsOf(seen) {
		now[p] = true
		if r.problems[p] {
			continue
		}
		r.log.Warn("configProblem", "lbnodeagent", p.about.Namespace+"/"+p.about.Name, "node", r.node,
			"reason", p.reason, "problem", p.message)
		r.events.Eventf(&p.about, corev1.EventTypeWarning, p.reason, "%s", p.message)
	}
	r.problems = now
}

// problemsOf returns the problems of the configuration that matter to this node.
func (r *reporter) problemsOf(seen *observation) []reportedProblem {
	var all []reportedProblem
	add := func(a config.Agent, reason, format string, args ...any) {
		all = append(all, reportedProblem{agentRef(a), reason, fmt.Sprintf(format, args...)})
	}
	switch p := seen.problem; {
	case seen.Broken:
		add(*seen.chosen, eventConfigError, "Node %s is announcing nothing new, and keeps what it has: %s", r.node, p)
	case p != "":
		add(*seen.chosen, eventConfigError, "Node %s is announcing nothing on its interfaces: %s", r.node, p)
	}
	for _, l := range seen.Node.Links {
		if l.Silent && seen.chosen != nil {
			add(*seen.chosen, eventLinkSilent, "Node %s hears no machine on interface %s, though other nodes should answer there: "+
				"they take its addresses; look at the switch port and its VLANs", r.node, l.Name)
		}
	}
	for _, h := range seen.hazards {
		if seen.chosen != nil {
			add(*seen.chosen, h.Reason, "Node %s %s", r.node, h.Text)
		}
	}
	for _, a := range seen.overruled {
		add(a, eventConfigIgnored, "LBNodeAgent %s takes precedence on node %s", seen.record.Agent, r.node)
	}
	for _, p := range seen.Config.Problems {
		if p.Kind == config.KindLBNodeAgent && p.Field == "spec.nodeSelector" {
			add(config.Agent{Namespace: p.Namespace, Name: p.Name, UID: p.UID}, eventInvalidSelector, "%s", p)
		}
	}
	return all
}

// agentRef returns the reference to a for an event.
func agentRef(a config.Agent) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: v2.GroupVersion.String(), Kind: config.KindLBNodeAgent, Namespace: a.Namespace, Name: a.Name, UID: a.UID,
	}
}

// overruled returns the LBNodeAgents that select a node with these labels, without the first
// one and those that configure nothing.
func overruled(c config.Config, node labels.Set, first *config.Agent) []config.Agent {
	return slices.DeleteFunc(slices.Concat(c.Agents, c.Broken), func(a config.Agent) bool {
		return a.Implied || !a.Selector.Matches(node) || first != nil && a.UID == first.UID
	})
}
