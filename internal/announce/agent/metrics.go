package agent

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"purelb.io/purelb/internal/announce"
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
	handovers, conflicts                   prometheus.Counter
	selectorState                          *prometheus.GaugeVec

	leaseHealthy                   prometheus.Gauge
	leaseRenewals, leaseFailures   prometheus.Counter
	winnerChanges                  *prometheus.CounterVec
	members, subnets, localSubnets prometheus.Gauge

	updates, updateErrors prometheus.Counter
	configLoaded          prometheus.Gauge
}

// States of selectorState.
var selectorStates = []string{"default", "configured", "deselected", "invalid", "none"}

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
		selectorState: gauges("lbnodeagent_selector_state", "1 for what the LBNodeAgents say about this node. configured. default: none that selects it has spec.local. deselected, none (there is no LBNodeAgent): it announces nothing. invalid: it announces nothing new.", "state"),
		leaseHealthy:  gauge("election_lease_healthy", "1 while this node's Lease is renewed in time."),
		leaseRenewals: counter("election_lease_renewals_total", "Renewals of this node's Lease."),
		leaseFailures: counter("election_lease_renewal_failures_total", "Attempts to renew this node's Lease that failed."),
		winnerChanges: counters("election_winner_changes_total", "Local addresses that went from one node to another.", "service"),
		members:       gauge("election_member_count", "Nodes that are alive."),
		subnets:       gauge("election_subnet_count", "Subnets of all nodes."),
		localSubnets:  gauge("election_local_subnet_count", "Subnets of this node."),
		updates:       counter("k8s_client_updates_total", "Services whose annotations were written."),
		updateErrors:  counter("k8s_client_update_errors_total", "Attempts to write the annotations of a Service that failed."),
		configLoaded:  gauge("k8s_client_config_loaded_bool", "1 once the configuration has been read."),
	}
	m.probes = counters("lbnodeagent_probes_total", "Local addresses that a segment was asked for before they were taken: silent, answered, failed.", "result")
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
		m.leaseHealthy.Set(process.Gauge(time.Since(last) < deadline))
	}
}

// observe sets the gauges to what the node sees.
func (m *Metrics) observe(seen *observation) {
	m.members.Set(float64(len(seen.Peers.Members)))
	m.subnets.Set(float64(len(seen.Peers.Known)))
	m.localSubnets.Set(float64(len(seen.record.Subnets)))
	now := selectorState(seen)
	for _, state := range selectorStates {
		m.selectorState.WithLabelValues(state).Set(process.Gauge(state == now))
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
	return "none"
}

// The series of a Service or an address are deleted together with it. Otherwise the number of series
// would grow without limit. The series of a node stay: they are few, and a node is usually gone when its
// addresses are taken.

// forget deletes the series of the Services and addresses that were reported before and are gone
// now.
func (m *Metrics) forget(before, now reports, services map[string]*Service) {
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

// addressState is what this node does with an address. An address that several Services share may
// have a state for each of them. The first of these states in the list below counts.
type addressState int

const (
	addressLocal     addressState = iota // announced here, and by no other node
	addressRemote                        // announced here, as by all nodes
	addressFailed                        // this node should announce it and cannot
	addressElsewhere                     // another node announces it
	addressUnplaced                      // no node can announce it
	addressUndecided                     // this node does not know enough
	addressWithheld                      // no node is to announce it: its Services have no endpoints
	addressWaiting                       // this node announces it as soon as another machine lets it go
	addressStates
)

// String returns the label of the metric.
func (s addressState) String() string {
	return [addressStates]string{"local", "remote", "failed", "elsewhere", "unplaced", "undecided", "withheld", "waiting"}[s]
}

// stateOf returns the state of the address that f is about.
func stateOf(f fact) addressState {
	d := f.decided()
	switch {
	case f.here() && d.Where == announce.Local:
		return addressLocal
	case f.here():
		return addressRemote
	case d.Withheld():
		return addressWithheld
	case d.Reason == announce.ReasonNoEligibleNodes, d.Reason == announce.ReasonNoInterface && d.Winner == "":
		return addressUnplaced
	case f.failure != "":
		return addressFailed
	case d.Reason == announce.ReasonLostElection, d.Reason == announce.ReasonNoEndpoints, d.Reason == announce.ReasonNoInterface:
		return addressElsewhere
	}
	return addressUndecided
}

// announced holds the metrics of addresses. It computes its gauges at each scrape: stored gauges
// would take more memory than all other state of the addresses.
type announced struct {
	desc, local, states, omitted *prometheus.Desc
	// most limits the series: if this node has more addresses, they have no series of their own.
	// Remote addresses have a series on every node, so their number counts first. Local addresses
	// keep their series as long as there are no more than most of them, because an alert compares
	// the local addresses of all nodes.
	most int
	last atomic.Pointer[announcedNow]
}

// announcedNow is the last report of the reporter, and the node. waiting is the number of
// addresses that wait for another machine.
type announcedNow struct {
	node    string
	reports reports
	waiting int
}

func newAnnounced(most int) *announced {
	labels := []string{"service", "node", "ip"}
	return &announced{
		desc:    prometheus.NewDesc("purelb_lbnodeagent_announced", "1 for each address that this node announces.", labels, nil),
		local:   prometheus.NewDesc("purelb_lbnodeagent_announced_local", "1 for each address of these that one node alone may announce.", labels, nil),
		states:  prometheus.NewDesc("purelb_lbnodeagent_addresses", "Addresses of Services, by what this node does with them. local, remote: it announces them. elsewhere: another node does. withheld: no endpoints. unplaced: no node can announce them. failed: this node should, but cannot. waiting: until no other machine answers. undecided: this node does not know enough.", []string{"state"}, nil),
		omitted: prometheus.NewDesc("purelb_lbnodeagent_announced_omitted", "Announced addresses without series of their own, because the node has more than --max-address-metrics.", nil, nil),
		most:    most,
	}
}

// show sets the report that the metrics show.
func (a *announced) show(node string, now reports, waiting int) {
	a.last.Store(&announcedNow{node, now, waiting})
}

// Describe implements prometheus.Collector.
func (a *announced) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{a.desc, a.local, a.states, a.omitted} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (a *announced) Collect(to chan<- prometheus.Metric) {
	now := a.last.Load()
	if now == nil {
		return
	}
	counts := now.count()
	for i, n := range counts {
		to <- prometheus.MustNewConstMetric(a.states, prometheus.GaugeValue, float64(n), addressState(i).String())
	}
	here, omitted := counts[addressLocal]+counts[addressRemote], 0
	if here > a.most {
		omitted = here
	}
	to <- prometheus.MustNewConstMetric(a.omitted, prometheus.GaugeValue, float64(omitted))
	if counts[addressLocal] > a.most {
		return
	}
	for s, f := range now.reports {
		if !f.here() || f.waits {
			continue
		}
		if omitted == 0 {
			to <- prometheus.MustNewConstMetric(a.desc, prometheus.GaugeValue, 1, s.service, now.node, s.ip.String())
		}
		if f.decided().Where == announce.Local {
			to <- prometheus.MustNewConstMetric(a.local, prometheus.GaugeValue, 1, s.service, now.node, s.ip.String())
		}
	}
}

// count returns how many addresses are in each state.
func (n *announcedNow) count() (counts [addressStates]int) {
	byAddress := make(map[netip.Addr]addressState, len(n.reports))
	for s, f := range n.reports {
		if f.waits {
			continue // it is one of n.waiting
		}
		state := stateOf(f)
		if first, shared := byAddress[s.ip]; !shared || state < first {
			byAddress[s.ip] = state
		}
	}
	for _, state := range byAddress {
		counts[state]++
	}
	counts[addressWaiting] = n.waiting
	return counts
}
