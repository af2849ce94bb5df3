package allocate_test

import "testing"

// A Service keeps an address that its group no longer has, and then the group names no neighbors any more.
func TestAStrayKeepsNoGroupThatNamesNobody(t *testing.T) {
	w := newWorld(t)
	edge := w.edge("edge")
	w.create(edge)
	w.allocator()
	web := w.allocate(balancer("web", inGroup("edge")), "192.0.2.1")
	w.kept(edge, true)
	w.patch(edge, "%s", `{"spec":{"remote":{"v4pools":[{"pool":"192.0.2.128/25","subnet":"192.0.2.0/24"}]}}}`)
	w.patch(edge, "%s", `{"spec":{"bgp":null}}`)
	w.kept(edge, false)
	w.restricted(web, "")
}
