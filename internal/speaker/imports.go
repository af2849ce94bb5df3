package speaker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/gobgp"
	"purelb.io/purelb/internal/peering"
)

// imports holds the addresses that become routes.
type imports struct {
	// batches carries what the importers read.
	batches chan batch
	// rules holds the importers of the rules in effect, by VRF.
	rules map[string]*importer
	// members holds the addresses of each route.
	members map[peering.RouteKey][]peering.Imported
	total   int
	// changed is when the last address came or went.
	changed time.Time
	// amiss says that the server may announce other routes than it should. The speaker
	// announces all routes again at due.
	amiss bool
	due   time.Time
	retry time.Duration
}

// importer watches the addresses on some interfaces for one VRF.
type importer struct {
	vrf      string
	patterns []string
	stop     context.CancelFunc
	// held are the addresses of the first list and all changes since. listed says that there
	// was such a list.
	listed bool
	held   map[peering.Imported]bool
	// before is the importer that this one replaces when it has its first list.
	before *importer
	// failure is why the importer cannot read addresses at this time.
	failure string
}

// batch is what an importer has read: all addresses, or changes after that.
type batch struct {
	of         *importer
	first      bool
	come, gone []peering.Imported
	err        error
}

// follow imports the addresses that d asks for, on dummy if d names no interface. Addresses
// of earlier rules stay until the new importers have listed theirs.
func (s *Speaker) follow(ctx context.Context, d peering.Decision, dummy string) {
	wanted := map[string][]string{}
	for _, rules := range append([]peering.ImportRules{d.Import}, d.VRFImports...) {
		if !rules.Enabled {
			continue
		}
		patterns := rules.Patterns
		if len(patterns) == 0 {
			patterns = []string{dummy}
		}
		wanted[rules.VRF] = slices.Compact(slices.Sorted(slices.Values(append(wanted[rules.VRF], patterns...))))
	}
	for vrf, i := range s.imports.rules {
		if wanted[vrf] == nil {
			s.unfollow(ctx, i)
		}
	}
	for vrf, patterns := range wanted {
		i := s.imports.rules[vrf]
		if i != nil && slices.Equal(i.patterns, patterns) {
			continue
		}
		if i != nil && !i.listed {
			i.stop()
			i = i.before
		}
		s.imports.rules[vrf] = s.newImporter(ctx, vrf, patterns, i)
	}
}

// unfollow stops an importer, and forgets its addresses.
func (s *Speaker) unfollow(ctx context.Context, i *importer) {
	delete(s.imports.rules, i.vrf)
	for ; i != nil; i = i.before {
		i.stop()
	}
	s.rebuild(ctx)
}

func (s *Speaker) newImporter(ctx context.Context, vrf string, patterns []string, before *importer) *importer {
	ctx, stop := context.WithCancel(ctx)
	i := &importer{vrf: vrf, patterns: patterns, stop: stop, before: before}
	s.Log.InfoContext(ctx, "importing", "node", s.Node, "interfaces", strings.Join(patterns, ","), "vrf", vrf)
	s.beside.wait.Go(func() { s.importAlways(ctx, i) })
	return i
}

// importAlways imports until ctx is done, and starts again after an error.
func (s *Speaker) importAlways(ctx context.Context, i *importer) {
	tell := func(b batch) {
		select {
		case s.imports.batches <- b:
		case <-ctx.Done():
		}
	}
	pauses := backoff.Pauses{Min: retryMin, Max: retryMax}
	for ctx.Err() == nil {
		first := true
		err := s.Kernel.Import(ctx, i.patterns, func(come, gone []peering.Imported) {
			tell(batch{of: i, first: first, come: come, gone: gone})
			first = false
			pauses.Reset()
		})
		if ctx.Err() != nil {
			return
		}
		tell(batch{of: i, err: orElse(err, errEnded)})
		backoff.Sleep(ctx, pauses.Next())
	}
}

// take takes in a batch of an importer. When take returns, the server announces the changed
// routes.
func (s *Speaker) take(ctx context.Context, now time.Time, b batch) {
	i := b.of
	if current := s.imports.rules[i.vrf]; current != i && (current == nil || current.before != i) {
		return // the importer was stopped meanwhile
	}
	if b.err != nil {
		if i.failure != b.err.Error() {
			s.Log.WarnContext(ctx, "importFailed", "node", s.Node, "interfaces", strings.Join(i.patterns, ","), "error", b.err)
		}
		i.failure = b.err.Error()
		return
	}
	i.failure = ""
	s.imports.changed = now
	if b.first {
		s.takeList(ctx, i, b.come)
		s.governing.later(now.Add(calm)) // some may not be in a pool
		return
	}
	touched := map[peering.RouteKey]bool{}
	for _, a := range b.gone {
		a.VRF = i.vrf
		if i.held[a] {
			delete(i.held, a)
			s.dropMember(a)
			touched[keyOf(a)] = true
		}
	}
	for _, a := range b.come {
		a.VRF = i.vrf
		if !i.held[a] {
			i.held[a] = true
			s.addMember(a)
			touched[keyOf(a)] = true
		}
	}
	s.change(ctx, touched)
	s.protect(now, touched)
}

// protect makes the policies reject the touched routes from neighbors, if no pool contains
// them.
func (s *Speaker) protect(now time.Time, touched map[peering.RouteKey]bool) {
	for key := range touched {
		if key.VRF == "" && !s.owned.Has(key.Prefix) {
			s.governing.later(now.Add(calm))
			return
		}
	}
}

// heldBeside returns the prefixes of the imported addresses that own does not cover, sorted:
// those of groups whose addresses an IPAM system manages, and those that other programs add.
func (s *Speaker) heldBeside(own []peering.PrefixRange) []peering.PrefixRange {
	var all []peering.PrefixRange
	owned := peering.CoverageOf(own)
	for key := range s.imports.members {
		if key.VRF == "" && !owned.Has(key.Prefix) {
			all = append(all, peering.Exactly(key.Prefix))
		}
	}
	slices.SortFunc(all, comparePrefixes)
	return all
}

// takeList takes in a complete list. It replaces the addresses of the importer, or of the one
// before it.
func (s *Speaker) takeList(ctx context.Context, i *importer, all []peering.Imported) {
	i.held, i.listed = make(map[peering.Imported]bool, len(all)), true
	for _, a := range all {
		a.VRF = i.vrf
		i.held[a] = true
	}
	for ; i.before != nil; i.before = i.before.before {
		i.before.stop()
	}
	s.rebuild(ctx)
}

func keyOf(a peering.Imported) peering.RouteKey {
	return peering.RouteKey{Prefix: a.Address.Masked(), VRF: a.VRF}
}

func (s *Speaker) addMember(a peering.Imported) {
	s.imports.members[keyOf(a)] = append(s.imports.members[keyOf(a)], a)
	s.imports.total++
}

func (s *Speaker) dropMember(a peering.Imported) {
	key := keyOf(a)
	rest := slices.DeleteFunc(s.imports.members[key], func(o peering.Imported) bool { return o == a })
	s.imports.members[key] = rest
	s.imports.total--
	if len(rest) == 0 {
		delete(s.imports.members, key)
	}
}

// rebuild computes members from the addresses of all importers, and announces the result.
func (s *Speaker) rebuild(ctx context.Context) {
	s.imports.members, s.imports.total = map[peering.RouteKey][]peering.Imported{}, 0
	for _, vrf := range slices.Sorted(maps.Keys(s.imports.rules)) {
		i := s.imports.rules[vrf]
		for ; i != nil && !i.listed; i = i.before {
		}
		if i != nil {
			for a := range i.held {
				s.addMember(a)
			}
		}
	}
	s.announce(ctx)
}

// listed reports whether every importer has had its first list.
func (s *Speaker) listed() bool {
	for _, i := range s.imports.rules {
		if !i.listed {
			return false
		}
	}
	return true
}

// imported returns all addresses, in no order.
func (s *Speaker) imported() []peering.Imported {
	all := make([]peering.Imported, 0, s.imports.total)
	for _, members := range s.imports.members {
		all = append(all, members...)
	}
	return all
}

// routes returns the routes to announce for these addresses.
func (s *Speaker) routes(of []peering.Imported) []peering.Route {
	if s.drain.withdrawn {
		return nil
	}
	here, _ := s.input.Attributes.announcedHere(of)
	return peering.Routes(here, s.input.attributesOf, s.drain.asks())
}

// announce makes the server announce exactly the routes that it should.
func (s *Speaker) announce(ctx context.Context) {
	s.announced(ctx, s.Server.Announce(ctx, s.routes(s.imported())))
}

// change makes the server announce or withdraw the touched routes.
func (s *Speaker) change(ctx context.Context, touched map[peering.RouteKey]bool) {
	if len(touched) == 0 {
		return
	}
	if s.imports.amiss {
		s.announce(ctx)
		return
	}
	var members []peering.Imported
	for key := range touched {
		members = append(members, s.imports.members[key]...)
	}
	add := s.routes(members)
	for _, r := range add {
		delete(touched, r.Key())
	}
	s.announced(ctx, s.Server.Change(ctx, add, slices.Collect(maps.Keys(touched))))
}

// announced takes in the result of an attempt to announce.
func (s *Speaker) announced(ctx context.Context, err error) {
	was := s.imports.amiss
	s.imports.amiss = err != nil
	switch {
	case err == nil:
		s.imports.retry, s.imports.due = retryMin, time.Time{}
		s.facts.later(time.Now().Add(settled))
	case ctx.Err() == nil:
		s.broken(err)
		s.imports.due = time.Now().Add(max(s.imports.retry, retryMin))
		s.imports.retry = min(2*max(s.imports.retry, retryMin), retryMax)
		if !was {
			s.Log.WarnContext(ctx, "announcementFailed", "node", s.Node, "error", err)
		}
	}
}

// broken stops the process if only a new process can clear the error.
func (s *Speaker) broken(err error) {
	if errors.Is(err, gobgp.ErrBroken) {
		s.fatal = err
	}
}
