package speaker

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/bgp/routing"
)

// program puts the learned routes that the rules select into the kernel. With keep, it removes no route,
// because the learned routes may be incomplete.
func program(ctx context.Context, server Server, kernel Kernel, rules []peering.ExportRule, protocol int, keep bool) ([]peering.Exported, error) {
	var wanted []routing.Route
	if len(rules) > 0 {
		learned, err := server.Learned(ctx)
		if err != nil {
			return nil, err
		}
		wanted = exportable(rules, protocol, learned)
	}
	return kernel.Program(ctx, wanted, keep)
}

// mainTable is RT_TABLE_MAIN. 0 means the same table.
const mainTable = 254

// place is the key of a route in the kernel.
type place struct {
	prefix        netip.Prefix
	table, metric uint32
}

// exportable returns the learned routes that the rules let into the kernel. Equally good
// paths to one prefix become one route.
func exportable(rules []peering.ExportRule, protocol int, learned []peering.LearnedRoute) []routing.Route {
	at := map[place]int{}
	var all []routing.Route
	for _, rule := range rules {
		for _, l := range learned {
			if !meets(rule, l) {
				continue
			}
			key := place{l.Prefix.Masked(), cmp.Or(rule.Table, mainTable), rule.Metric}
			i, ok := at[key]
			if !ok {
				i = len(all)
				at[key] = i
				all = append(all, routing.Route{
					Prefix: key.prefix, Protocol: protocol, Table: key.table, Metric: rule.Metric, ValidateNextHop: rule.ValidateNextHop,
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
