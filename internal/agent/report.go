package agent

import (
	"log/slog"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/election"
)

// Reasons of events.
const (
	eventAnnouncingLocal    = "AnnouncingLocal"
	eventAnnouncingNonLocal = "AnnouncingNonLocal"
	eventFailed             = "AnnouncementFailed"
	eventSlotSteal          = "AnnounceSlotSteal"
	eventConflict           = "AddressConflict"
)

// reporter tells people what changed: by log, event, metric and annotation. It
// remembers what it told, so that nothing is told twice.
type reporter struct {
	node    string
	log     *slog.Logger
	events  record.EventRecorder
	metrics *Metrics

	// told is nil before the first report: what is found in place then is
	// adopted, which is no news.
	told map[subject]fact
	// problems and subnets are what was told about the configuration.
	problems map[problemTold]bool
	subnets  string
}

// subject is one address of one Service.
type subject struct {
	service string
	ip      netip.Addr
}

// fact is what there is to tell of a subject.
type fact struct {
	decision announce.Decision
	// failure is why the address is not there although it should be.
	failure string
}

// report tells what changed, and returns the annotations that are to be written.
func (r *reporter) report(seen *observation, decisions []announce.Decision, done outcome) map[string]Write {
	now := make(map[subject]fact, len(decisions))
	byService := map[string][]announce.Decision{}
	for _, d := range decisions {
		s := subject{d.Service, d.IP}
		if done.unfinished(d.IP) {
			if before, ok := r.told[s]; ok {
				now[s] = before
			}
			byService[d.Service] = append(byService[d.Service], asWritten(seen.services[d.Service], r.node, d))
			continue
		}
		f := fact{decision: d, failure: d.Message}
		if err := done.failed[d.IP]; err != nil {
			f.failure = err.Error()
			d.Where = announce.Nowhere
		}
		byService[d.Service] = append(byService[d.Service], d)
		now[s] = f
		_, added := done.added[d.IP]
		r.tell(seen.services[d.Service], f, r.told[s], added || r.told != nil)
	}
	for s, f := range r.told {
		if _, still := now[s]; !still {
			r.forget(s, f)
		}
	}
	r.told = now
	r.tellConfig(seen)
	r.metrics.observe(seen)
	return r.writes(seen, byService)
}

// tell tells how f differs from what was told before. An address that was found
// in place is no news.
func (r *reporter) tell(svc *corev1.Service, f, before fact, news bool) {
	d, was := f.decision, before.decision
	if w := was.Winner; w != "" && d.Winner != "" && w != d.Winner {
		r.metrics.winnerChanges.WithLabelValues(d.Service).Inc()
	}
	if d.Where == announce.Local && d.Because == election.ReasonAffinityFallback && was.Because != d.Because {
		r.metrics.affinityFallback.WithLabelValues(d.IP.String()).Inc()
	}
	switch {
	case f.failure != "":
		if f.failure != before.failure {
			r.tellFailure(svc, f)
		}
		r.metrics.announcing(d.Service, r.node, d.IP, false)
	case d.Where != announce.Nowhere:
		if was.Where != d.Where || was.Address.Link != d.Address.Link || before.failure != "" {
			r.tellHere(svc, d, news)
		}
	case was.Service == "" || was.Where != announce.Nowhere || was.Reason != d.Reason || was.Winner != d.Winner:
		r.tellNotHere(d)
	}
}

// tellHere tells that an address is announced by this node.
func (r *reporter) tellHere(svc *corev1.Service, d announce.Decision, news bool) {
	facts := []any{"service", d.Service, "address", d.IP, "node", r.node, "interface", d.Address.Link, "reason", d.Reason}
	r.metrics.announcing(d.Service, r.node, d.IP, true)
	if d.Where == announce.Remote {
		r.log.Info("announcingNonLocal", facts...)
		if news {
			r.event(serviceRef(svc), corev1.EventTypeNormal, eventAnnouncingNonLocal,
				"Announcing %s from node %s interface %s", d.IP, r.node, d.Address.Link)
		}
		return
	}
	r.metrics.wins.Inc()
	r.log.Info("electionWon", facts...)
	if news {
		r.event(serviceRef(svc), corev1.EventTypeNormal, eventAnnouncingLocal,
			"Node %s announcing %s on interface %s", r.node, d.IP, d.Address.Link)
	}
}

// tellNotHere tells that an address is not announced by this node.
func (r *reporter) tellNotHere(d announce.Decision) {
	facts := []any{"service", d.Service, "address", d.IP, "node", r.node, "reason", d.Reason, "winner", d.Winner}
	r.metrics.announcing(d.Service, r.node, d.IP, false)
	switch d.Reason {
	case announce.ReasonLostElection:
		r.metrics.losses.Inc()
		r.log.Info("lostElection", facts...)
	case announce.ReasonNoInterface:
		r.log.Info("noLocalInterface", facts...)
	}
	r.log.Info("withdrawAddress", facts...)
}

// tellFailure tells that an address should be announced by this node, and cannot.
func (r *reporter) tellFailure(svc *corev1.Service, f fact) {
	d := f.decision
	r.log.Warn("announcementFailed", "service", d.Service, "address", d.IP, "node", r.node,
		"interface", d.Address.Link, "reason", d.Reason, "error", f.failure)
	if d.Where == announce.Nowhere {
		r.log.Info("withdrawAddress", "service", d.Service, "address", d.IP, "node", r.node, "reason", d.Reason)
		r.event(serviceRef(svc), corev1.EventTypeWarning, eventFailed, "Node %s could not announce %s: %s", r.node, d.IP, f.failure)
		return
	}
	r.event(serviceRef(svc), corev1.EventTypeWarning, eventFailed,
		"Node %s could not announce %s on interface %s: %s", r.node, d.IP, d.Address.Link, f.failure)
}

// forget tells that a Service has an address no more.
func (r *reporter) forget(s subject, f fact) {
	r.metrics.announcing(s.service, r.node, s.ip, false)
	if f.decision.Where != announce.Nowhere {
		r.log.Info("withdrawAddress", "service", s.service, "address", s.ip, "node", r.node, "reason", "released")
	}
}

// stolen tells that this node took an address from another.
func (r *reporter) stolen(svc *corev1.Service, from string, ip netip.Addr) {
	r.metrics.slotSteals.WithLabelValues(from, r.node).Inc()
	r.event(serviceRef(svc), corev1.EventTypeNormal, eventSlotSteal, "Node %s took %s over from node %s", r.node, ip, from)
}

// event emits an event, unless nobody knows what about.
func (r *reporter) event(about *corev1.ObjectReference, kind, reason, format string, args ...any) {
	if about != nil {
		r.events.Eventf(about, kind, reason, format, args...)
	}
}

// serviceRef is svc as an event names it.
func serviceRef(svc *corev1.Service) *corev1.ObjectReference {
	if svc == nil {
		return nil
	}
	return &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Service", Namespace: svc.Namespace, Name: svc.Name, UID: svc.UID,
	}
}
