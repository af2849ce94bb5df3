package routing

import (
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// Realm is the set of routes of one protocol number in one table. No other program should
// use that protocol number in that table. A default route is in the realm only if Default
// is set: removing the default route of another program could cut the node off.
type Realm struct {
	Protocol int
	Table    uint32 // 0 means the main table
	// Default means that default routes with DefaultMetric are in the realm too.
	Default       bool
	DefaultMetric uint32
}

// check reports what is wrong with r, regardless of other realms.
func (r Realm) check() error {
	if r.Protocol <= unix.RTPROT_STATIC || r.Protocol > 255 {
		return fmt.Errorf("route protocol %d is not one of a routing daemon: 5 to 255", r.Protocol)
	}
	return nil
}

// has reports whether a route is in r.
func (r Realm) has(it route) bool {
	if int(it.protocol) != r.Protocol || it.table != mainTable(r.Table) {
		return false
	}
	return it.prefix.Bits() != 0 || r.Default && it.metric == metricFor(it.prefix, r.DefaultMetric)
}

// realms is a set of realms.
type realms []Realm

func (rs realms) has(it route) bool {
	return slices.ContainsFunc(rs, func(r Realm) bool { return r.has(it) })
}

func mainTable(table uint32) uint32 {
	if table == unix.RT_TABLE_UNSPEC {
		return unix.RT_TABLE_MAIN
	}
	return table
}

// defaultMetric6 is IP6_RT_PRIO_USER: the metric that the kernel gives an IPv6 route
// without one.
const defaultMetric6 = 1024

// metricFor returns the metric that the kernel stores for metric.
func metricFor(prefix netip.Prefix, metric uint32) uint32 {
	if metric == 0 && prefix.Addr().Is6() {
		return defaultMetric6
	}
	return metric
}
