package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/internal/topology"
)

// zoneNodes returns the nodes of a segment.
func zoneNodes(segment topology.Segment) (names []string) {
	for _, n := range lab.Nodes() {
		if n.NICs[0].Segment == segment.Name {
			names = append(names, n.Name)
		}
	}
	return names
}

// advertising returns a group with these lines in spec.bgp.
func advertising(lines string) string {
	return `
apiVersion: purelb.io/v2
kind: ServiceGroup
metadata: {name: e2e-advertised, namespace: purelb-system}
spec:
  remote:
    v4pools: [{subnet: 10.243.8.0/24, pool: 10.243.8.0/24, aggregation: /32}]
    v6pools: [{subnet: "fd00:10:243:8::/64", pool: "fd00:10:243:8::/64", aggregation: /128}]
  bgp:
    communities: ["64515:1"]
    advertisements:` + lines
}

// The nodes of each segment peer with the router by another address, so that the router can compare what
// the nodes of the two segments announce.
func TestAdvertisementsDifferByNeighbor(t *testing.T) {
	const (
		toA = "\n    - {peers: [172.30.250.1]"
		toB = "\n    - {peers: [172.30.251.1]"
	)
	w := newWorld(t)
	w.sessions()
	group := advertising(toA + `, asPathPrepend: 2, communities: ["64515:250", no-export], med: 33}` + toB + "}\n")
	w.apply(group, echo("web", 1), service("web", "e2e-advertised"))
	t.Cleanup(func() { w.remove(group) })
	addresses := w.addresses("web", families())
	nearA, nearB := zoneNodes(topology.SegmentA), zoneNodes(topology.SegmentB)
	through := func(what string, nodes []string, prefixes ...netip.Prefix) {
		t.Helper()
		for _, p := range prefixes {
			w.until(patience, fmt.Sprintf("%s: the router reaches %s by way of %v", what, p, nodes), func() bool { return equal(w.nextHops(p), nodes) })
		}
	}
	says := func(p netip.Prefix, texts ...string) {
		t.Helper()
		family := "ipv4"
		if p.Addr().Is6() {
			family = "ipv6"
		}
		w.until(patience, fmt.Sprintf("the router has %q for %s", texts, p), func() bool {
			out, err := lab.Exec(w.ctx, cluster.Router, "vtysh", "-c", "show bgp "+family+" unicast "+p.String())
			for _, text := range texts {
				if err != nil || !strings.Contains(out, text) {
					return false
				}
			}
			return true
		})
	}
	through("a longer path from the first segment", nearB, hosts(addresses)...)
	for _, p := range hosts(addresses) {
		says(p, "64515 64515 64515", "Community: 64515:250 no-export", "metric 33", "Community: 64515:1\n")
	}
	w.answers(addresses...)

	w.apply(advertising(toA + "}" + toB + ", asPathPrepend: 1}\n"))
	through("a longer path from the second segment", nearA, hosts(addresses)...)
	w.answers(addresses...)

	w.apply(advertising(toA + ", aggregation: /24, aggregationV6: /64}" + toB + "}\n"))
	through("a route of its own to one neighbor", nearB, hosts(addresses)...)
	for _, a := range addresses {
		bits := map[bool]int{true: 24, false: 64}[a.Is4()]
		through("a route of the subnet to the other", nearA, netip.PrefixFrom(a, bits).Masked())
	}
	w.answers(addresses...)
}
