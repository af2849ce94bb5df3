package agent

import (
	"time"
)

// viewShown is what one source says of a node.
type viewShown struct {
	Node  string    `json:"node"`
	State string    `json:"state"`
	Since time.Time `json:"since"`
}

// views are the parts of /state that say what gossip and Leases tell, each by
// itself.
func (f *fellows) views() map[string]func() any {
	return map[string]func() any{"gossip": f.showGossip, "leases": f.showLeases}
}

func (f *fellows) showGossip() any {
	g := f.gossiping()
	if g == nil {
		return map[string]any{"runs": false}
	}
	var members []viewShown
	for _, m := range first(g.Members(), maxShown) {
		members = append(members, viewShown{m.Node, m.State.String(), m.Since})
	}
	return map[string]any{"runs": true, "members": members, "health": g.Health()}
}

func (f *fellows) showLeases() any {
	view := f.leases.View()
	state := map[bool]string{true: "alive", false: "silent"}
	var nodes []viewShown
	for _, l := range first(view.Leases, maxShown) {
		nodes = append(nodes, viewShown{l.Node, state[l.Alive], l.Renewed})
	}
	return map[string]any{"trusted": view.Trusted, "settled": view.Settled, "contact": view.Contact, "nodes": nodes}
}
