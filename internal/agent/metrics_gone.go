package agent

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"purelb.io/purelb/internal/election"
)

// What is counted of one Service, address or node ends with it: where they come and
// go there would be no end of series.

// stealsKept is how long it stays counted what was taken from a node that is gone:
// most often it is gone when something is taken from it.
const stealsKept = time.Hour

// forget ends what is counted of the Services and addresses that were told of
// before and are not there now.
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
		return // as nearly always
	}
	for s := range now {
		delete(gone, s.ip)
	}
	for ip := range gone {
		m.affinityFallback.DeleteLabelValues(ip.String())
	}
}

// steals are from when it was counted last that something was taken from each node.
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

// forgetNodes ends what is counted of nodes of which peers know nothing any more.
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

// knows says whether node is there, or is remembered for its own addresses.
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
