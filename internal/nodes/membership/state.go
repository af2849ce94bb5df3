package membership

import "time"

// maxShown is how many nodes State shows. The first thousand explain as much as all.
const maxShown = 1000

// nodeState is the state of a node in one source.
type nodeState struct {
	Node  string    `json:"node"`
	State string    `json:"state"`
	Since time.Time `json:"since"`
}

// State returns functions that show the state of gossip and of the Leases separately, for
// debugging.
func (m *Membership) State() map[string]func() any {
	return map[string]func() any{"gossip": m.gossipState, "leases": m.leaseState}
}

func (m *Membership) gossipState() any {
	g := m.gossiping()
	if g == nil {
		return map[string]any{"runs": false}
	}
	var nodes []nodeState
	for _, n := range first(g.Members()) {
		one := nodeState{n.Node, n.State.String(), n.Since}
		if !n.Unheard.IsZero() {
			one.State, one.Since = "unheard", n.Unheard
		}
		nodes = append(nodes, one)
	}
	return map[string]any{"runs": true, "members": nodes, "health": g.Health(), "patience": g.Patience().String()}
}

func (m *Membership) leaseState() any {
	view := m.leases.View()
	state := map[bool]string{true: "alive", false: "silent"}
	var nodes []nodeState
	for _, l := range first(view.Leases) {
		nodes = append(nodes, nodeState{l.Node, state[l.Alive], l.Renewed})
	}
	return map[string]any{"trusted": view.Trusted, "settled": view.Settled, "contact": view.Contact, "nodes": nodes}
}

// first returns the elements that State shows.
func first[T any](all []T) []T { return all[:min(len(all), maxShown)] }
