package backends

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/netbox"
)

const (
	// firstSweep is the time before the first sweep of a server. Claims come first.
	firstSweep = time.Minute
	sweepEvery = 10 * time.Minute
	pageTime   = 2 * time.Minute
	// grace is longer than a request to NetBox may last.
	grace = 15 * time.Minute
)

// sightings are the orphans of a custom field, with the time of the sweep that first saw
// each.
type sightings map[hold]time.Time

// sweepUntil compares the addresses in NetBox with those of the cluster, until ctx ends.
func (s *server) sweepUntil(ctx context.Context) {
	seen := map[string]sightings{}
	every, page := s.manager.options.SweepEvery, s.manager.options.PageTime
	for wait := min(firstSweep, every); backoff.Sleep(ctx, wait); {
		pages := 0
		for field, members := range s.byField() {
			found := s.sweep(ctx, members, seen[field])
			seen[field] = found.seen
			pages += found.pages
		}
		wait = max(every, time.Duration(pages)*page)
		wait += time.Duration(s.manager.options.Random() * float64(wait) / 10)
	}
}

// found is the result of a sweep. A failed sweep found nothing.
type found struct {
	seen  sightings
	pages int
}

// sweep compares the grants of all groups that use one custom field. It reads the addresses of the
// cluster before and after the list. So it ignores an address that was added or removed meanwhile.
func (s *server) sweep(ctx context.Context, members []member, seen sightings) found {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	before, beforeByGroup, complete := s.manager.holds()
	works := slices.IndexFunc(members, func(m member) bool { return !m.state.away() })
	if !complete || works < 0 {
		return found{seen: seen}
	}
	grants, err := members[works].pool.Grants(call)
	if err != nil {
		warnAll(members, "what NetBox holds cannot be compared with what the cluster has: "+err.Error())
		return found{seen: seen}
	}
	after, _, complete := s.manager.holds()
	if !complete {
		return found{seen: seen}
	}
	listed := map[hold]bool{}
	orphans := sightings{}
	now := time.Now()
	var old []ipam.Grant
	for _, g := range grants {
		h := holdOf(g)
		if listed[h] = true; before[h] || after[h] {
			continue
		}
		orphans[h] = now
		if first, again := seen[h]; again {
			orphans[h] = first
			old = append(old, g)
		}
	}
	s.giveOrphans(members, old, orphans)
	s.register(members, beforeByGroup, after, listed)
	return found{seen: orphans, pages: 1 + len(grants)/pageSize}
}

// warnAll replaces the warning of the groups; "" means none.
func warnAll(members []member, warning string) {
	for _, m := range members {
		if warning == "" {
			m.state.warn("sweep")
		} else {
			m.state.warn("sweep", warning)
		}
	}
}

// mixed reports whether groups that have the claims of their addresses in the same custom field of
// one NetBox give addresses back in different ways: by deleting them, and by setting them to
// reserved. It is then unknown which way is right for an orphan. Groups with different tokens have
// different clients, but each client sees the orphans of all of them.
func (m *Manager) mixed(of netbox.Group, url string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.wanted {
		n := b.NetBox
		if n == nil || config.ServerOf(n.URL) != config.ServerOf(url) || cmp.Or(n.Field, netbox.DefaultField) != cmp.Or(of.Field, netbox.DefaultField) {
			continue
		}
		if n.Reserved != (of.Mode == netbox.ModeReserved) {
			return true
		}
	}
	return false
}

// giveOrphans counts the orphans, and gives the ledger the orphans that were seen for long enough.
func (s *server) giveOrphans(members []member, orphans []ipam.Grant, seen sightings) {
	count, due := map[string]int{}, map[string][]ipam.Grant{}
	now, grace := time.Now(), s.manager.options.Grace
	for _, g := range orphans {
		group := groupOf(members, g)
		count[group]++
		if now.Sub(seen[holdOf(g)]) >= grace && now.Sub(g.Created) >= grace {
			due[group] = append(due[group], g)
		}
	}
	warning := ""
	if len(orphans) > 0 && s.manager.mixed(members[0].group, s.id.url) {
		clear(due)
		warning = "addresses without a Service are not released, for groups with prefixes and groups with reserved addresses have their claims in the same custom field: give the groups different custom fields"
	}
	warnAll(members, warning)
	for _, m := range members {
		m.state.update(func(state *State) { state.Orphans = count[m.group.Name] })
		if list := due[m.group.Name]; len(list) > 0 {
			s.manager.ledger.Orphans(m.group.Name, list)
			s.manager.Poke(m.group.Name)
		}
	}
}

// groupOf returns the group that releases an orphan: the one whose prefixes contain the
// address, or the first.
func groupOf(members []member, g ipam.Grant) string {
	for _, m := range members {
		if m.has(g.Address) {
			return m.group.Name
		}
	}
	return members[0].group.Name
}

// has reports whether an address is in the prefixes or ranges of the group.
func (m member) has(a netip.Addr) bool {
	for _, text := range m.pool.Facts().Parents {
		if r, err := addr.ParseBlock(text); err == nil && r.Contains(a) {
			return true
		}
	}
	return false
}

// register reports to the ledger which grants NetBox lacks.
func (s *server) register(members []member, held map[string][]ipam.Grant, still map[hold]bool, listed map[hold]bool) {
	for _, m := range members {
		var missing []ipam.Grant
		for _, g := range held[m.group.Name] {
			if h := holdOf(g); still[h] && !listed[h] {
				missing = append(missing, g)
			}
		}
		m.state.update(func(state *State) { state.Missing = len(missing) })
		if len(missing) > 0 {
			s.manager.ledger.Register(m.group.Name, missing)
			s.manager.Poke(m.group.Name)
		}
	}
}
