package speaker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/bgp/routing"
)

// errAnotherServer says that the BGP server was replaced, so the learned routes may be incomplete.
var errAnotherServer = errors.New("the BGP server is another one")

// program puts the learned routes that the rules select into the kernel. It fails with
// errAnotherServer if Ended no longer returns servers. With keep, it removes no route.
func program(ctx context.Context, server Server, kernel Kernel, rules []peering.ExportRule, protocol, servers int, keep bool) (done exported, err error) {
	if len(rules) > 0 {
		learned, err := server.Learned(ctx)
		if err != nil {
			return done, err
		}
		if server.Ended() != servers {
			return done, errAnotherServer
		}
		done.routes = exportable(rules, protocol, learned)
	}
	done.problems, err = kernel.Program(ctx, routing.Wanted{Routes: done.routes, Own: realmsOf(rules, protocol), Keep: keep})
	return done, err
}

// realmsOf returns the tables and marks in which the rules may put routes.
func realmsOf(rules []peering.ExportRule, protocol int) []routing.Realm {
	var all []routing.Realm
	for _, r := range rules {
		realm := routing.Realm{Protocol: protocol, Table: r.Table}
		if r.AllowDefault {
			realm.Default, realm.DefaultMetric = true, r.Metric
		}
		if !slices.Contains(all, realm) {
			all = append(all, realm)
		}
	}
	return all
}

// misplaced describes routes that are in the place of a wanted route: routes of another program, or
// an earlier one of ours. It returns "" if there is none.
func misplaced(problems []routing.Problem) string {
	for _, p := range problems {
		switch {
		case errors.Is(p.Err, routing.ErrShared):
			return fmt.Sprintf("table %d has routes of another program, which stay: %v, such as %s; remove them, or choose another spec.netlinkExport.routeProtocol",
				p.Table, p.Err, p.Prefix)
		case p.Foreign > 0:
			return fmt.Sprintf("nothing is exported into table %d: %v, such as %s; remove them, or choose another spec.netlinkExport.routeProtocol",
				p.Table, p.Err, p.Prefix)
		case p.Left:
			return fmt.Sprintf("a route from before is still in the kernel: %s in table %d: %v", p.Prefix, p.Table, p.Err)
		}
	}
	return ""
}

// exportable returns the learned routes that the rules let into the kernel. Equally good
// paths to one prefix become one route.
func exportable(rules []peering.ExportRule, protocol int, learned []peering.LearnedRoute) []routing.Route {
	type place struct {
		prefix        netip.Prefix
		table, metric uint32
	}
	at := map[place]int{}
	var all []routing.Route
	for _, rule := range rules {
		for _, l := range learned {
			if !meets(rule, l) {
				continue
			}
			key := place{l.Prefix, rule.Table, rule.Metric}
			i, ok := at[key]
			if !ok {
				i = len(all)
				at[key] = i
				all = append(all, routing.Route{
					Prefix: l.Prefix, Protocol: protocol, Table: rule.Table, Metric: rule.Metric, ValidateNextHop: rule.ValidateNextHop,
				})
			}
			// If several rules have the same place, the strictest rule decides.
			all[i].ValidateNextHop = all[i].ValidateNextHop || rule.ValidateNextHop
			if !slices.Contains(all[i].NextHops, l.NextHop) {
				all[i].NextHops = append(all[i].NextHops, l.NextHop)
			}
		}
	}
	return all
}

// meets reports whether a rule selects a route.
func meets(rule peering.ExportRule, l peering.LearnedRoute) bool {
	if l.Prefix.Bits() == 0 && !rule.AllowDefault {
		return false
	}
	if len(rule.Communities) == 0 && len(rule.LargeCommunities) == 0 {
		return true
	}
	return slices.ContainsFunc(rule.Communities, func(c uint32) bool { return slices.Contains(l.Communities, c) }) ||
		slices.ContainsFunc(rule.LargeCommunities, func(c string) bool { return slices.Contains(l.LargeCommunities, c) })
}
