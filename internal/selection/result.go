package selection

import (
	"net/netip"
	"slices"
	"strings"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/service"
)

// result says where addresses come from. What was said of addresses that stay
// as they are is not said anew: a group that was renamed or removed since does
// not make a Service change.
func (m *matter) result(addresses []netip.Addr) service.Result {
	result := service.Result{
		Addresses: addresses, From: m.r.From, PoolType: m.r.PoolType,
		SkipIPv6DAD: m.skipIPv6DAD(addresses), Reevaluated: m.r.Reevaluate && !m.unfit,
	}
	changed := !slices.Equal(addresses, m.r.Held)
	if changed || m.r.From == "" {
		result.From = m.from(addresses)
	}
	if changed || m.r.PoolType == "" {
		result.PoolType = m.poolType(addresses)
	}
	return result
}

// from names the groups of addresses. An address that is in no group any more
// has the name that it came with.
func (m *matter) from(addresses []netip.Addr) string {
	var names []string
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, a := range addresses {
		if g, _, ok := m.Config.GroupOf(a); ok {
			add(g.DisplayName())
			continue
		}
		for name := range strings.SplitSeq(m.r.From, ", ") {
			add(name)
		}
	}
	return strings.Join(names, ", ")
}

// poolType is local if all addresses are. For addresses that no group and no
// node's subnet has, it is what it was.
func (m *matter) poolType(addresses []netip.Addr) string {
	for _, a := range addresses {
		if m.local(a) {
			continue
		}
		if _, _, known := m.Config.GroupOf(a); known || m.r.PoolType == service.PoolRemote {
			return service.PoolRemote
		}
	}
	return service.PoolLocal
}

// skipIPv6DAD reports whether the group of an IPv6 address wants it to be used
// without duplicate address detection.
func (m *matter) skipIPv6DAD(addresses []netip.Addr) bool {
	return slices.ContainsFunc(addresses, func(a netip.Addr) bool {
		g, _, ok := m.Config.GroupOf(a)
		return addr.FamilyOf(a) == addr.V6 && (ok && g.SkipIPv6DAD || !ok && m.r.SkipIPv6DAD)
	})
}

// local reports whether a is announced by one node only: a is in the subnet of
// a node, or its group is for such addresses.
func (m *matter) local(a netip.Addr) bool {
	if slices.ContainsFunc(m.Subnets, func(s netip.Prefix) bool { return s.Contains(a) }) {
		return true
	}
	g, _, ok := m.Config.GroupOf(a)
	return ok && g.Announce == config.AnnounceLocal
}

// needsClusterPolicy reports whether the external traffic policy is Local and
// must not be, as traffic would be lost: it comes to one node, which need not
// have an endpoint, or not one of each Service that shares the address.
func (m *matter) needsClusterPolicy(addresses []netip.Addr) bool {
	if !m.r.LocalPolicy || m.r.Leaving || len(addresses) == 0 {
		return false
	}
	return m.r.SharingKey != "" || !m.r.AllowLocal && slices.ContainsFunc(addresses, m.local)
}
