package gobgp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"purelb.io/purelb/internal/bgp/peering"
)

// application is one Apply to a running server.
type application struct {
	*Server
	ctx      context.Context
	wanted   peering.State
	problems []peering.Problem
}

// Reasons of problems.
const (
	reasonRefused = "Refused"
	reasonPending = peering.ReasonPending
)

func (a *application) problem(path, reason string, err error) {
	a.problems = append(a.problems, peering.Problem{Field: path, Reason: reason, Message: err.Error()})
}

// apply carries out the differences. If a part cannot be removed, the part that should replace it
// is not added.
//
// As long as the policies cannot be set, apply adds no neighbor, and ends no session for a
// change: the policies in effect do not cover new neighbors. It adds and changes no routes either. The routes
// come between the new policies and their application to the neighbors, so that no neighbor gets a
// route that either the former or the new policies keep from it.
func (a *application) apply() {
	c := peering.Diff(a.wanted.Peers, slices.SortedFunc(maps.Values(a.found.peers), byName))
	come := slices.Concat(c.Replace, c.Add)
	a.removePeers(c.Remove)
	a.engine.learn(a.events, a.wanted.Learns)
	before, had := a.found.policies, maps.Clone(a.routes)
	if !a.policies() {
		a.withdrawUnwanted() // no policy lets more neighbors have them
		a.withhold(come)
		a.updatePeers(c.Update)
		return
	}
	a.setRoutes()
	a.removePeers(c.Replace)
	a.refresh(before, had)
	a.addPeers(come)
	a.updatePeers(c.Update)
}

// setRoutes sets the routes, unless they are to stay.
func (a *application) setRoutes() {
	if a.wanted.Routes != nil {
		a.noteRoutes(a.announce(a.ctx, a.wanted.Routes, a.wanted.Waiting))
	}
}

// withdrawUnwanted withdraws the routes that are not wanted any more, unless they are to stay.
func (a *application) withdrawUnwanted() {
	if a.wanted.Routes != nil {
		a.noteRoutes(a.change(a.ctx, nil, a.unwanted(a.wanted.Routes, a.wanted.Waiting)))
	}
}

// noteRoutes records that the routes could not be set, if err is not nil.
func (a *application) noteRoutes(err error) {
	if err != nil {
		a.problems = append(a.problems, peering.Problem{Field: "routes", Reason: reasonRefused, Message: err.Error(), Routes: true})
	}
}

// errWithheld says that a neighbor waits for the policies.
var errWithheld = errors.New("waits until the policies can be set (see the other problems)")

// withhold reports the neighbors that are not added or not changed because the policies
// cannot be set.
func (a *application) withhold(peers []peering.Peer) {
	for _, p := range peers {
		a.problem(p.Path, reasonPending, fmt.Errorf("neighbor %s %w", p.Name(), errWithheld))
	}
}

func byName(a, b peering.Peer) int { return strings.Compare(a.Name(), b.Name()) }
