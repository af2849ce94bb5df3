package allocator_test

import (
	"net/netip"
	"testing"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/testing/netboxtest"
)

// prefixGroup makes a prefix in NetBox, and a group that has it.
func (b *box) prefixGroup(name, cidr string) *v2.ServiceGroup {
	b.Helper()
	b.AddBlock(netboxtest.Block{Prefix: netip.MustParsePrefix(cidr)})
	g := b.groupOf(name, v2.ServiceGroupSpec{Netbox: &v2.NetboxSpec{
		URL: b.http.URL, Parents: []v2.NetboxParent{{Prefix: &v2.NetboxPrefix{CIDR: cidr}}},
	}})
	b.create(g)
	return g
}

func TestAServiceMovesBetweenGroupsOfOneNetBox(t *testing.T) {
	w := newWorld(t)
	b := newBox(w)
	b.token(netboxtest.AdminToken)
	b.prefixGroup("first", "203.0.113.0/24")
	b.prefixGroup("second", "192.0.2.0/24")
	w.allocator()
	web := balancer("web", inGroup("first"))
	w.create(web)
	w.has(web, "203.0.113.1")

	w.patch(web, `{"metadata":{"annotations":{"purelb.io/service-group":"second","purelb.io/re-evaluate":"true"}}}`)
	w.has(web, "192.0.2.1")
	b.active("192.0.2.1/24 " + web.Namespace + "/web")
	w.remove(web)
	b.active()
}
