package gobgp

import (
	"context"
	"errors"
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

// reasonRefused is the reason of problems.
const reasonRefused = "Refused"

func (a *application) problem(path string, err error) {
	a.problems = append(a.problems, peering.Problem{Field: path, Reason: reasonRefused, Message: err.Error()})
}

// apply carries out the differences. If a part cannot be removed, the part that should replace it
// is not added.
//
// If the policies cannot be set, apply only withdraws routes: the policies in effect do not cover new neighbors and
// routes. The routes come between the new policies and their application to the neighbors, so that no neighbor gets
// a route that either the former or the new policies keep from it.
func (a *application) apply() error {
	c := peering.Diff(a.wanted.Peers, slices.SortedFunc(maps.Values(a.found.peers), byName))
	before, had := a.found.policies, maps.Clone(a.routes)
	if err := a.policies(); err != nil {
		return errors.Join(err, a.withdrawUnwanted())
	}
	a.removePeers(c.Remove)
	a.engine.learn(a.events, a.wanted.Learns)
	a.setRoutes()
	a.removePeers(c.Replace)
	a.refresh(before, had)
	a.addPeers(slices.Concat(c.Replace, c.Add))
	a.updatePeers(c.Update)
	return nil
}

// setRoutes sets the routes, unless they are to stay.
func (a *application) setRoutes() {
	if a.wanted.Routes == nil {
		return
	}
	if err := a.announce(a.ctx, a.wanted.Routes, a.wanted.Waiting); err != nil {
		a.problems = append(a.problems, peering.Problem{Field: "routes", Reason: reasonRefused, Message: err.Error(), Routes: true})
	}
}

// withdrawUnwanted withdraws the routes that are not wanted any more, unless they are to stay.
func (a *application) withdrawUnwanted() error {
	if a.wanted.Routes == nil {
		return nil
	}
	return a.withdraw(a.unwanted(a.wanted.Routes, a.wanted.Waiting))
}

func byName(a, b peering.Peer) int { return strings.Compare(a.Name(), b.Name()) }
