package routing

import (
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// Realm are the routes of a protocol in a table: nobody else is to mark routes
// with it there. Default routes are only what it says, for another's loss of one
// may be that of the node.
type Realm struct {
	Protocol int
	Table    uint32 // 0: the main table
	// Default says that default routes with DefaultMetric belong to it too.
	Default       bool
	DefaultMetric uint32
}

// check says what is wrong with r by itself.
func (r Realm) check() error {
	if r.Protocol <= unix.RTPROT_STATIC || r.Protocol > 255 {
		return fmt.Errorf("route protocol %d is not one of a routing daemon: 5 to 255", r.Protocol)
	}
	return nil
}

// has says whether a route belongs to r.
func (r Realm) has(it route) bool {
	if int(it.protocol) != r.Protocol || it.table != mainTable(r.Table) {
		return false
	}
	return it.prefix.Bits() != 0 || r.Default && it.metric == metricFor(it.prefix, r.DefaultMetric)
}

// realms are all that is ours.
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

// defaultMetric6 is IP6_RT_PRIO_USER: what IPv6 makes of no metric.
const defaultMetric6 = 1024

// metricFor is what the kernel makes of a metric.
func metricFor(prefix netip.Prefix, metric uint32) uint32 {
	if metric == 0 && prefix.Addr().Is6() {
		return defaultMetric6
	}
	return metric
}
