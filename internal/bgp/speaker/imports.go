package speaker

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/bgp/gobgp"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
)

// imports holds the addresses that become routes.
type imports struct {
	// batches carries what the importers read.
	batches chan batch
	// importer is the importer for the rules in effect, or nil.
	importer *importer
	// members holds the addresses of each route.
	members map[netip.Prefix][]peering.Imported
	total   int
	// changed is when an address was last added or removed.
	changed time.Time
	// pending are the routes that have changed during an Apply.
	pending map[netip.Prefix]bool
	// stale says that the next Apply must set all routes. outOfSync says that an attempt to set routes
	// failed.
	stale, outOfSync bool
	retry            backoff.Pauses
}

// errEnded says that a task ended that should run until it is canceled.
var errEnded = errors.New("it ended by itself")

// importer watches the addresses on some interfaces.
type importer struct {
	patterns []string
	stop     context.CancelFunc
	// listed says that the first list has arrived. Until then the addresses of the importer before it stay.
	listed bool
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
// of earlier rules stay until the new importer has listed its own.
func (s *Speaker) follow(ctx context.Context, d peering.Decision, dummy string) {
	if !d.Import.Enabled {
		s.unfollow()
		return
	}
	patterns := slices.Compact(slices.Sorted(slices.Values(d.Import.Patterns)))
	if len(patterns) == 0 {
		patterns = []string{dummy}
	}
	if i := s.imports.importer; i != nil {
		if slices.Equal(i.patterns, patterns) {
			return
		}
		i.stop()
	}
	s.Log.InfoContext(ctx, "importing", "node", s.Node, "interfaces", strings.Join(patterns, ","))
	ctx, stop := context.WithCancel(ctx)
	i := &importer{patterns: patterns, stop: stop}
	s.imports.importer = i
	s.background.wait.Go(func() { s.importAlways(ctx, i) })
}

// unfollow stops the importer, if there is one, and forgets its addresses.
func (s *Speaker) unfollow() {
	if s.imports.importer == nil {
		return
	}
	s.imports.importer.stop()
	s.imports.importer = nil
	s.replaceMembers(nil)
}

// importAlways imports until ctx is done, and starts again after an error.
func (s *Speaker) importAlways(ctx context.Context, i *importer) {
	send := func(b batch) {
		select {
		case s.imports.batches <- b:
		case <-ctx.Done():
		}
	}
	pauses := backoff.Pauses{Min: retryMin, Max: retryMax}
	for ctx.Err() == nil {
		first := true
		err := s.Kernel.Import(ctx, i.patterns, func(come, gone []peering.Imported) {
			send(batch{of: i, first: first, come: come, gone: gone})
			first = false
			pauses.Reset()
		})
		if ctx.Err() != nil {
			return
		}
		send(batch{of: i, err: cmp.Or(err, errEnded)})
		backoff.Sleep(ctx, pauses.Next())
	}
}

// take handles a batch of an importer. When take returns, the server announces the changed routes, unless
// an Apply is running.
func (s *Speaker) take(ctx context.Context, now time.Time, b batch) {
	i := b.of
	if i != s.imports.importer {
		return // it was stopped meanwhile
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
		i.listed = true
		s.replaceMembers(b.come)
		s.governing.Ask(now)
		return
	}
	touched := map[netip.Prefix]bool{}
	for _, a := range b.gone {
		s.dropMember(a)
		touched[a.Address.Masked()] = true
	}
	for _, a := range b.come {
		s.addMember(a)
		touched[a.Address.Masked()] = true
	}
	s.change(ctx, now, touched)
	s.protect(now, touched)
}

// learns reports whether the node learns routes by the current configuration or by the last one that could be
// used.
func (s *Speaker) learns() bool {
	return slices.ContainsFunc([]*intent.Input{&s.input, s.governing.good}, func(in *intent.Input) bool {
		return in != nil && in.Config != nil && peering.Learns(in.Config.Spec)
	})
}

// protect makes the policies reject the touched routes from neighbors, if the node learns routes and no pool
// contains them.
func (s *Speaker) protect(now time.Time, touched map[netip.Prefix]bool) {
	if !s.learns() {
		return
	}
	for key := range touched {
		if !s.owned.Has(key) {
			s.governing.Ask(now.Add(collectPause))
			return
		}
	}
}

// heldOutside returns the prefixes of the imported addresses that own does not cover, sorted: the
// addresses of groups that an IPAM system manages, and the addresses that other programs add.
func (s *Speaker) heldOutside(own []peering.PrefixRange) []peering.PrefixRange {
	var all []peering.PrefixRange
	owned := peering.CoverageOf(own)
	for key := range s.imports.members {
		if !owned.Has(key) {
			all = append(all, peering.Exactly(key))
		}
	}
	slices.SortFunc(all, peering.PrefixRange.Compare)
	return all
}

// replaceMembers replaces the addresses that become routes by all.
func (s *Speaker) replaceMembers(all []peering.Imported) {
	s.imports.members, s.imports.total = map[netip.Prefix][]peering.Imported{}, 0
	for _, a := range all {
		s.addMember(a)
	}
	s.imports.stale = true
}

func (s *Speaker) addMember(a peering.Imported) {
	key := a.Address.Masked()
	s.imports.members[key] = append(s.imports.members[key], a)
	s.imports.total++
}

func (s *Speaker) dropMember(a peering.Imported) {
	key := a.Address.Masked()
	rest := slices.DeleteFunc(s.imports.members[key], func(o peering.Imported) bool { return o == a })
	s.imports.members[key] = rest
	s.imports.total--
	if len(rest) == 0 {
		delete(s.imports.members, key)
	}
}

// listed reports whether the first list of the importer, if there is one, has arrived.
func (s *Speaker) listed() bool { return s.imports.importer == nil || s.imports.importer.listed }

// imported returns all addresses, in no order.
func (s *Speaker) imported() []peering.Imported {
	all := make([]peering.Imported, 0, s.imports.total)
	for _, members := range s.imports.members {
		all = append(all, members...)
	}
	return all
}

// routes returns the routes to announce for these addresses, and the addresses that wait for their
// policies. enforced are the attributes whose policies are in effect.
func (s *Speaker) routes(enforced intent.Attributes, of []peering.Imported) ([]peering.Route, []netip.Addr) {
	here, _ := s.announcedHere(of)
	return s.announceable(enforced).routes(here)
}

// announceSoon makes the server announce exactly the routes that it should.
func (s *Speaker) announceSoon(now time.Time) {
	s.imports.stale = true
	s.governing.Ask(now)
}

// change makes the server announce or withdraw the touched routes. A server that does not run gets all
// routes when it starts.
func (s *Speaker) change(ctx context.Context, now time.Time, touched map[netip.Prefix]bool) {
	if s.governing.applying {
		maps.Copy(s.imports.pending, touched)
		return
	}
	if len(touched) == 0 || !s.governing.running {
		return
	}
	if s.input.Attributes.Aggregates() {
		s.announceSoon(now) // a route may have more members than the touched ones
		return
	}
	var members []peering.Imported
	for key := range touched {
		members = append(members, s.imports.members[key]...)
	}
	add, waiting := s.routes(s.governing.applied.input.Attributes, members)
	for _, r := range add {
		delete(touched, r.Prefix)
	}
	maps.DeleteFunc(touched, func(key netip.Prefix, _ bool) bool { return peering.Contains(key, waiting) })
	s.imports.stale = s.imports.stale || len(waiting) > 0
	err := s.Server.Change(ctx, add, slices.Collect(maps.Keys(touched)))
	if err != nil || !s.imports.outOfSync {
		s.announced(ctx, now, err == nil, err)
	}
}

// announced handles the result of an attempt to set routes.
func (s *Speaker) announced(ctx context.Context, now time.Time, all bool, err error) {
	was := s.imports.outOfSync
	s.imports.outOfSync = !all
	if all {
		s.imports.retry.Reset()
		s.facts.Ask(now.Add(addressPause))
		return
	}
	if err != nil {
		s.broken(err)
		if !was {
			s.Log.WarnContext(ctx, "announcementFailed", "node", s.Node, "error", err)
		}
	}
	s.announceSoon(now.Add(s.imports.retry.Next()))
}

// broken stops the process if only a new process can clear the error.
func (s *Speaker) broken(err error) {
	if errors.Is(err, gobgp.ErrBroken) {
		s.fatal = err
	}
}
