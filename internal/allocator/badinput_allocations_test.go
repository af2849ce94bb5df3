package allocator

import (
	"fmt"
	"net/netip"
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/service"
)

// million is how many addresses 10.0.0.0/12 has.
const million = 1 << 20

// all is the group called default, of one range.
func all(t *testing.T, addresses, subnet string) ipam.Group {
	t.Helper()
	p, err := ipam.ParsePool(addresses, subnet, "default")
	if err != nil {
		t.Fatal(err)
	}
	return ipam.Group{Name: "default", Announce: ipam.AnnounceRemote, Pools: []ipam.Pool{p}}
}

// TestFullPoolCostsOneChoicePerService makes ten thousand Services ask for an address of a full
// pool of a million. If the allocator searched the pool for each of them, this test would not end.
func TestFullPoolCostsOneChoicePerService(t *testing.T) {
	s := newFixture(t, all(t, "10.0.0.0-10.15.255.255", "10.0.0.0/12"), group(t, "other", "192.0.2.1-192.0.2.9"))
	a := netip.MustParseAddr("10.0.0.0")
	for i := range million {
		if err := s.cluster.Store.Hold(a, ipam.Owner(fmt.Sprintf("default/h%03d", i>>10)), false); err != nil {
			t.Fatal(err)
		}
		a = a.Next()
	}
	if free := s.usages(nil)[0].free[addr.V4]; free != 0 {
		t.Fatalf("%d addresses are free", free)
	}
	s.costs(many, "refusing all Services", func() { s.decideMany("") })
	last := netip.MustParseAddr("10.15.255.255")
	asking := s.wants("asking", asking(last.String()))
	s.costs(1, "asking for the last address", func() { s.gets(asking, "") })
	s.costs(1, "asking another group", func() {
		s.gets(s.wants("good", func(r *service.Request) { r.Group = "other" }), "192.0.2.1")
	})
	s.costs(2, "freeing the last address", func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.cluster.Store.Release(last, "default/h1023")
		s.mark(last)
		s.serve()
	})
	s.only("default/w00000", owner(asking)) // the younger Service learns which Service has the address
}

func TestConflictInASlash64CostsOneChoicePerService(t *testing.T) {
	s := newFixture(t, all(t, "2001:db8::-2001:db8::ffff:ffff:ffff:ffff", "2001:db8::/64"))
	six := families(service.All, addr.V6)
	holder := s.gets(s.wants("holder", six, keyed("key", 53)), "2001:db8::")
	s.costs(many, "refusing all Services with the same port", func() { s.decideMany("", six, keyed("key", 53)) })
	s.costs(1, "serving another Service", func() { s.gets(s.wants("good", six), "2001:db8::1") })
	s.costs(2*mostHints, "the holder goes", func() { s.forget(owner(holder)) })
	s.gets(s.services["default/w00000"].waiting.request, "2001:db8::")
}
