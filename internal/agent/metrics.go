package agent

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"purelb.io/purelb/internal/election"
	"purelb.io/purelb/internal/process"
)

// Metrics are the agent's metrics, under the names that dashboards use.
type Metrics struct {
	announced *announced

	garpSent, garpErrors, naSent, naErrors prometheus.Counter
	renewals, renewalErrors                prometheus.Counter
	additions, withdrawals                 prometheus.Counter
	wins, losses                           prometheus.Counter
	passErrors                             prometheus.Counter
	slotSteals, probes, affinityFallback   *prometheus.CounterVec
	steals                                 steals
	handovers, conflicts                   prometheus.Counter
	selectorState                          *prometheus.GaugeVec

	leaseHealthy                   prometheus.Gauge
	leaseRenewals, leaseFailures   prometheus.Counter
	winnerChanges                  *prometheus.CounterVec
	members, subnets, localSubnets prometheus.Gauge
	cutOff                         prometheus.Gauge

	updates, updateErrors prometheus.Counter
	configLoaded          prometheus.Gauge
}

// States of selectorState.
var selectorStates = []string{"default", "configured", "deselected", "invalid"}

// NewMetrics registers the metrics. Each address of this node has its own series if there
// are no more than perAddress of them.
func NewMetrics(registry prometheus.Registerer, perAddress int) *Metrics {
	r := promauto.With(registry)
	counter := func(name, help string) prometheus.Counter {
		return r.NewCounter(prometheus.CounterOpts{Name: "purelb_" + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return r.NewGauge(prometheus.GaugeOpts{Name: "purelb_" + name, Help: help})
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return r.NewCounterVec(prometheus.CounterOpts{Name: "purelb_" + name, Help: help}, labels)
	}
	gauges := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return r.NewGaugeVec(prometheus.GaugeOpts{Name: "purelb_" + name, Help: help}, labels)
	}
	m := &Metrics{
		announced:     newAnnounced(perAddress),
		garpSent:      counter("lbnodeagent_garp_sent_total", "Rounds of gratuitous ARP sent."),
		garpErrors:    counter("lbnodeagent_garp_errors_total", "Rounds of gratuitous ARP that could not be sent."),
		naSent:        counter("lbnodeagent_na_sent_total", "Unsolicited Neighbor Advertisements sent."),
		naErrors:      counter("lbnodeagent_na_errors_total", "Unsolicited Neighbor Advertisements that could not be sent."),
		renewals:      counter("lbnodeagent_address_renewals_total", "Addresses written again, for their lifetime or their attributes."),
		renewalErrors: counter("lbnodeagent_address_renewal_errors_total", "Addresses that could not be written again."),
		additions:     counter("lbnodeagent_address_additions_total", "Addresses added to an interface."),
		withdrawals:   counter("lbnodeagent_address_withdrawals_total", "Addresses removed from an interface."),
		wins:          counter("lbnodeagent_election_wins_total", "Decisions that this node announces a local address."),
		losses:        counter("lbnodeagent_election_losses_total", "Decisions that another node announces a local address."),
		passErrors:    counter("lbnodeagent_pass_errors_total", "Passes of the agent's loop with a failure."),
		slotSteals:    counters("lbnodeagent_announce_slot_steal_total", "Addresses taken over from another node.", "from", "to"),
		selectorState: gauges("lbnodeagent_selector_state", "1 for what the LBNodeAgents say about this node.", "state"),
		leaseHealthy:  gauge("election_lease_healthy", "1 while this node's Lease is renewed in time."),
		leaseRenewals: counter("election_lease_renewals_total", "Renewals of this node's Lease."),
		leaseFailures: counter("election_lease_renewal_failures_total", "Attempts to renew this node's Lease that failed."),
		winnerChanges: counters("election_winner_changes_total", "Local addresses that went from one node to another.", "service"),
		members:       gauge("election_member_count", "Nodes that are alive."),
		subnets:       gauge("election_subnet_count", "Subnets of all nodes."),
		localSubnets:  gauge("election_local_subnet_count", "Subnets of this node."),
		cutOff:        gauge("election_cut_off", "1 while this node hears neither the API server nor most other nodes."),
		updates:       counter("k8s_client_updates_total", "Services whose annotations were written."),
		updateErrors:  counter("k8s_client_update_errors_total", "Attempts to write the annotations of a Service that failed."),
		configLoaded:  gauge("k8s_client_config_loaded_bool", "1 once the configuration has been read."),
	}
	m.probes = counters("lbnodeagent_probes_total", "Local addresses that a segment was asked for before they were taken.", "result")
	m.handovers = counter("lbnodeagent_handovers_total", "Local addresses that another node was asked to take.")
	m.conflicts = counter("lbnodeagent_address_conflicts_total", "Machines found that claim an address which this node has or is to have.")
	m.affinityFallback = counters("election_affinity_fallback_total", "Local addresses whose preferred nodes were all unable to announce them.", "service")
	registry.MustRegister(m.announced, process.BuildInfo("lbnodeagent"))
	for _, state := range selectorStates {
		m.selectorState.WithLabelValues(state).Set(0)
	}
	return m
}

// LeaseRenewed counts the results of attempts to renew the Lease. The Lease is healthy for
// deadline after each success.
func (m *Metrics) LeaseRenewed(deadline time.Duration) func(error) {
	var last time.Time
	return func(err error) {
		if err == nil {
			last = time.Now()
			m.leaseRenewals.Inc()
		} else {
			m.leaseFailures.Inc()
		}
		m.leaseHealthy.Set(boolean(time.Since(last) < deadline))
	}
}

// observe sets the gauges to what the node sees.
func (m *Metrics) observe(seen *observation) {
	m.members.Set(float64(len(seen.Peers.Members)))
	m.cutOff.Set(boolean(seen.Peers.CutOff))
	m.subnets.Set(float64(len(seen.Peers.Known)))
	m.localSubnets.Set(float64(len(seen.record.Subnets)))
	now := selectorState(seen)
	for _, state := range selectorStates {
		m.selectorState.WithLabelValues(state).Set(boolean(state == now))
	}
}

func selectorState(seen *observation) string {
	switch {
	case seen.Agent != nil && seen.Agent.Implied:
		return "default"
	case seen.Agent != nil:
		return "configured"
	case seen.Broken:
		return "invalid"
	case seen.agents > 0:
		return "deselected"
	}
	return "default"
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// The series of a Service, address or node end with it. Otherwise they would grow without
// limit as Services and nodes come and go.

// stealsKept is how long the agent keeps the count of addresses that it took from a node that
// is gone: most often the node is gone when an address is taken from it.
const stealsKept = time.Hour

// forget ends the series of the Services and addresses that were reported before and are not
// there now.
func (m *Metrics) forget(before, now told, services map[string]*Service) {
	gone := map[netip.Addr]bool{}
	for s := range before {
		if _, still := now[s]; still {
			continue
		}
		gone[s.ip] = true
		if services[s.service] == nil {
			m.winnerChanges.DeleteLabelValues(s.service)
		}
	}
	if len(gone) == 0 {
		return // the usual case
	}
	for s := range now {
		delete(gone, s.ip)
	}
	for ip := range gone {
		m.affinityFallback.DeleteLabelValues(ip.String())
	}
}

// steals holds when an address was last taken from each node.
type steals struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// stolen counts that to took an address from a node.
func (m *Metrics) stolen(now time.Time, from, to string) {
	m.steals.mu.Lock()
	defer m.steals.mu.Unlock()
	if m.steals.last == nil {
		m.steals.last = map[string]time.Time{}
	}
	m.steals.last[from] = now
	m.slotSteals.WithLabelValues(from, to).Inc()
}

// forgetNodes ends the series of nodes that peers no longer know.
func (m *Metrics) forgetNodes(now time.Time, self string, peers election.Peers) {
	m.steals.mu.Lock()
	defer m.steals.mu.Unlock()
	for node, at := range m.steals.last {
		if now.Sub(at) >= stealsKept && !knows(peers, node) {
			delete(m.steals.last, node)
			m.slotSteals.DeleteLabelValues(node, self)
		}
	}
}

// knows reports whether node is there, or is remembered for its own addresses.
func knows(p election.Peers, node string) bool {
	if slices.ContainsFunc(p.Members, func(m election.Member) bool { return m.Node == node }) {
		return true
	}
	for _, other := range p.Own {
		if other == node {
			return true
		}
	}
	return false
}
