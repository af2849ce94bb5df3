package membership

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/nodes/gossip"
	"purelb.io/purelb/internal/process"
)

var (
	describeView     = prometheus.NewDesc("purelb_election_view", "1 if this source, gossip or lease, now tells which nodes are alive.", []string{"source"}, nil)
	describeMembers  = prometheus.NewDesc("purelb_gossip_members", "Nodes that gossip knows of, this one included: alive, dead, left.", []string{"state"}, nil)
	describeDropped  = prometheus.NewDesc("purelb_gossip_packets_dropped_total", "Packets and streams that were not accepted: bad_key, bad_format, replayed, bad_record, refused. bad_version: releases too far apart. other_process: for the previous agent of this node, normal after a restart.", []string{"reason"}, nil)
	describeLosses   = prometheus.NewDesc("purelb_gossip_losses_total", "Agents that fell silent.", nil, nil)
	describeStalls   = prometheus.NewDesc("purelb_gossip_stalls_total", "Times when this agent did not run when it should have.", nil, nil)
	describeDoubts   = prometheus.NewDesc("purelb_gossip_doubts_total", "Suspicions: raised by this agent, which missed heartbeats of another, or contradicted by this agent, which others suspected. A few per day come from lost packets.", []string{"outcome"}, nil)
	describeBytes    = prometheus.NewDesc("purelb_gossip_bytes_total", "Bytes without the headers of UDP, TCP and IP.", []string{"direction"}, nil)
	describePatience = prometheus.NewDesc("purelb_gossip_patience_seconds", "How long another agent is silent before it counts as dead. 0 without gossip.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m *Membership) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, to) }

// Collect implements prometheus.Collector.
func (m *Membership) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, n *atomic.Uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n.Load()), labels...)
	}
	m.mu.Lock()
	g, hears, polls := m.gossip, m.mode.hears, m.mode.polls
	m.mu.Unlock()
	gauge(describeView, process.Gauge(hears), "gossip")
	gauge(describeView, process.Gauge(polls), "lease")
	h := &gossip.Health{}
	members := map[election.State]int{}
	var patience time.Duration
	if g != nil {
		h, patience = g.Health(), g.Patience()
		for _, one := range g.Members() {
			members[one.State]++
		}
	}
	for _, state := range []election.State{election.Alive, election.Dead, election.Left} {
		gauge(describeMembers, float64(members[state]), state.String())
	}
	for reason, n := range map[string]*atomic.Uint64{
		"bad_key": &h.BadKey, "bad_format": &h.BadFormat, "replayed": &h.Replayed, "bad_record": &h.BadRecord, "refused": &h.RefusedStreams,
		"bad_version": &h.BadVersion, "other_process": &h.OtherProcess,
	} {
		count(describeDropped, n, reason)
	}
	count(describeLosses, &h.Losses)
	count(describeStalls, &h.Stalls)
	count(describeDoubts, &h.Missed, "raised")
	count(describeDoubts, &h.Accused, "contradicted")
	count(describeBytes, &h.BytesIn, "in")
	count(describeBytes, &h.BytesOut, "out")
	gauge(describePatience, patience.Seconds())
}

// maxShown is how many nodes State shows. The first thousand explain as much as all.
const maxShown = 1000

// nodeState is the state of a node according to gossip.
type nodeState struct {
	Node  string    `json:"node"`
	State string    `json:"state"`
	Since time.Time `json:"since"`
}

// State shows the state of gossip, for debugging. The Leases show their own.
func (m *Membership) State() any {
	g := m.gossiping()
	if g == nil {
		return map[string]any{"runs": false}
	}
	var nodes []nodeState
	all := g.Members()
	for _, n := range all[:min(len(all), maxShown)] {
		one := nodeState{n.Node, n.State.String(), n.Since}
		if !n.Unheard.IsZero() {
			one.State, one.Since = "unheard", n.Unheard
		}
		nodes = append(nodes, one)
	}
	return map[string]any{"runs": true, "members": nodes, "patience": g.Patience().String()}
}
