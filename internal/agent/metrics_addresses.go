package agent

import (
	"net/netip"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"purelb.io/purelb/internal/announce"
)

// addressState is what this node does with an address. An address that several Services share
// is in the first state that it is in for one of them.
type addressState int

const (
	addressLocal     addressState = iota // announced here, and by no other node
	addressRemote                        // announced here, as by all nodes
	addressFailed                        // this node should announce it and cannot
	addressElsewhere                     // another node announces it
	addressUnplaced                      // no node can announce it
	addressUndecided                     // this node does not know enough, or is cut off
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

// announced holds the metrics of addresses. It makes its gauges at each scrape: ten thousand
// stored gauges would take more memory than all other state of ten thousand addresses.
type announced struct {
	desc, local, states, omitted *prometheus.Desc
	// most is the number of addresses on this node up to which each has its own series. All
	// nodes announce a remote address, so their series are as many as addresses times nodes.
	// One node announces a local address, so many remote ones do not hide local ones: an alert
	// compares the local ones of all nodes.
	most int
	last atomic.Pointer[announcedNow]
}

// announcedNow is the last report of the reporter, and the node. waiting is the number of
// addresses that the report leaves out because they wait for another machine.
type announcedNow struct {
	node    string
	told    told
	waiting int
}

func newAnnounced(most int) *announced {
	labels := []string{"service", "node", "ip"}
	return &announced{
		desc:    prometheus.NewDesc("purelb_lbnodeagent_announced", "1 for each address that this node announces.", labels, nil),
		local:   prometheus.NewDesc("purelb_lbnodeagent_announced_local", "1 for each address of these that one node alone may announce.", labels, nil),
		states:  prometheus.NewDesc("purelb_lbnodeagent_addresses", "Addresses of Services, by what this node does with them.", []string{"state"}, nil),
		omitted: prometheus.NewDesc("purelb_lbnodeagent_announced_omitted", "Announced addresses without series of their own, because they are too many.", nil, nil),
		most:    most,
	}
}

// show sets the report that the metrics show.
func (a *announced) show(node string, now told, waiting int) {
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
	for s, f := range now.told {
		if !f.here() {
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
	byAddress := make(map[netip.Addr]addressState, len(n.told))
	for s, f := range n.told {
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
