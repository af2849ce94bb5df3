package backends

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/allocate/netbox"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/config"
)

const (
	// firstSweep is the time before the first sweep of a server. Claims come first.
	firstSweep = time.Minute
	sweepEvery = 10 * time.Minute
	// pagesEach is how many pages of NetBox's list an interval allows.
	pagesEach = 5
	// mostListed is how many orphans of a group the State lists.
	mostListed = 100
)

// sweepUntil compares the addresses in NetBox with those of the cluster, until ctx ends. It does so at
// intervals, and when a person confirms the release of orphans.
func (s *server) sweepUntil(ctx context.Context) {
	every := s.manager.options.SweepEvery
	for wait := min(firstSweep, every); backoff.Wait(ctx, wait, s.confirmed); {
		pages := 0
		for _, members := range s.byField() {
			pages += s.sweep(ctx, members)
		}
		wait = max(every, time.Duration(pages)*every/pagesEach)
	}
}

// sweep compares the grants of all groups that use one custom field, and returns how many pages
// NetBox's list has. It changes nothing in NetBox, because an address that no Service of this cluster
// has may be in use: another cluster may have the same name, or this cluster may be a copy of another
// one. A person confirms the release.
//
// sweep reads the addresses of the cluster before and after the list. So it ignores an address that
// was added or removed meanwhile.
func (s *server) sweep(ctx context.Context, members []netBox) (pages int) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	before, beforeByGroup := s.manager.holds()
	works := slices.IndexFunc(members, func(m netBox) bool { return !m.state.away() })
	if works < 0 {
		return 0
	}
	pool := members[works].pool
	grants, err := pool.Grants(call)
	if err != nil {
		for _, m := range members {
			m.state.warn("sweep", "what NetBox holds cannot be compared with what the cluster has: "+err.Error())
		}
		return 0
	}
	after, _ := s.manager.holds()
	listed := map[ipam.Grant]bool{}
	unknown := map[string][]ipam.Grant{}
	for _, g := range grants {
		h := compared(g)
		if listed[h] = true; !before[h] && !after[h] {
			group := groupOf(members, g)
			unknown[group] = append(unknown[group], g)
		}
	}
	for _, m := range members {
		var missing []ipam.Grant
		for _, g := range beforeByGroup[m.group.Name] {
			if h := compared(g); after[h] && !listed[h] {
				missing = append(missing, g)
			}
		}
		m.state.update(func(state *State) { state.Missing = len(missing) })
		s.count(call, pool, m, s.manager.ledger.Compared(m.group.Name, unknown[m.group.Name], missing))
	}
	return 1 + len(grants)/pageSize
}

// count shows the orphans of a group, and releases them if a person has confirmed exactly these.
func (s *server) count(ctx context.Context, pool *netbox.Pool, m netBox, orphans []ipam.Grant) {
	slices.SortFunc(orphans, func(a, b ipam.Grant) int {
		return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.Key, b.Key))
	})
	digest, warning := digestOf(orphans), ""
	if len(orphans) > 0 && digest == m.confirmed {
		orphans, warning = s.giveBack(ctx, pool, m, orphans)
	}
	switch {
	case warning != "":
		m.state.warn("sweep", warning)
	case len(orphans) > 0:
		m.state.warn("sweep", fmt.Sprintf("NetBox holds %d addresses for cluster %q that none of its Services has, such as %s (%s), and PureLB does not release them: "+
			"another cluster may have the same clusterName, or one of the two may be a copy of the other. If nothing uses the addresses: kubectl purelb ipam release-orphans %s",
			len(orphans), m.group.Cluster, orphans[0].Address, orphans[0].Key, m.group.Name))
	default:
		m.state.warn("sweep")
	}
	m.state.update(func(state *State) {
		state.Orphans, state.Digest = len(orphans), ""
		state.Listed = slices.Clone(orphans[:min(len(orphans), mostListed)])
		if len(orphans) > 0 {
			state.Digest = digestOf(orphans)
		}
	})
}

// digestOf returns a short text that is the same only for the same orphans.
func digestOf(orphans []ipam.Grant) string {
	sum := sha256.New()
	for _, g := range orphans {
		fmt.Fprintln(sum, g.Key, g.Address)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// giveBack releases orphans. It returns those that are left, and why.
func (s *server) giveBack(ctx context.Context, pool *netbox.Pool, m netBox, orphans []ipam.Grant) (left []ipam.Grant, why string) {
	if s.manager.mixed(m.group, s.id.url) {
		return orphans, "addresses without a Service are not released, for groups with prefixes and groups with reserved addresses have their claims in the same custom field: give the groups different custom fields"
	}
	for i, err := range pool.Release(ctx, orphans) {
		if err != nil {
			left = append(left, orphans[i])
			why = "an address without a Service cannot be released: " + err.Error()
			continue
		}
		s.manager.options.Log.InfoContext(ctx, "released an address that no Service has", "group", m.group.Name, "address", orphans[i].Address, "claim", orphans[i].Key)
	}
	s.manager.Poke(s.manager.ledger.Pending(m.group.Name)...) // a claim for which no address was free may succeed now
	return left, why
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
		if n == nil || config.ServerOf(n.URL) != config.ServerOf(url) || n.Field != of.Field {
			continue
		}
		if n.Reserved != of.Reserved {
			return true
		}
	}
	return false
}

// groupOf returns the group that shows an orphan: the one whose prefixes contain the address, or the
// first.
func groupOf(members []netBox, g ipam.Grant) string {
	for _, m := range members {
		if m.has(g.Address) {
			return m.group.Name
		}
	}
	return members[0].group.Name
}

// has reports whether an address is in the prefixes or ranges of the group.
func (m netBox) has(a netip.Addr) bool {
	for _, text := range m.pool.Facts().Parents {
		if r, err := addr.ParseBlock(text); err == nil && r.Contains(a) {
			return true
		}
	}
	return false
}
