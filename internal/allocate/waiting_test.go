package allocate

import (
	"fmt"
	"net/netip"
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// only fails unless exactly these Services were woken.
func (s *fixture) only(owners ...ipam.Owner) {
	s.Helper()
	if len(s.woken) != len(owners) {
		s.Errorf("%d are woken, want %q", len(s.woken), owners)
	}
	for _, o := range owners {
		if !s.woken[o] {
			s.Errorf("%s is not woken", o)
		}
	}
}

// However many Services wait, a freed address costs a few choices, and the oldest of them gets it.
func TestFreedAddressCostsFewChoices(t *testing.T) {
	both := families(service.All, addr.V4, addr.V6)
	leaves := func(s *fixture, holder service.Request) { s.forget(owner(holder)) }
	for _, tt := range []struct {
		name            string
		holder, waiting func(*service.Request)
		// frees frees the address. It costs most choices.
		frees func(s *fixture, holder service.Request)
		most  int
		want  string
	}{
		{"for any Service", keyed("", 80), keyed("", 80), leaves, 1, "192.0.2.1"},
		{"of both families", both, both, leaves, 1, "192.0.2.1 2001:db8::1"},
		{"that all ask for", keyed("", 80), asking("192.0.2.1"), leaves, 1, "192.0.2.1"},
		{"by a sharer that changes its port", keyed("key", 80), keyed("key", 80), func(s *fixture, holder service.Request) {
			keyed("key", 8080)(&holder)
			s.gets(holder, "192.0.2.1")
		}, 1000, "192.0.2.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newFixture(t, group(t, "default", "192.0.2.1-192.0.2.1", "2001:db8::1-2001:db8::1"))
			holder := s.gets(s.wants("holder", tt.holder), tt.want)
			waiting := make([]service.Request, 1000)
			for i := range waiting {
				waiting[i] = s.gets(s.wants(fmt.Sprintf("w%03d", i), tt.waiting), "")
			}
			clear(s.woken)
			s.costs(0, "the end of a waiting Service", func() { s.forget(owner(waiting[1])) })
			s.costs(tt.most, "the free address", func() { tt.frees(s, holder) })
			s.wakes(owner(waiting[0]))
			s.gets(s.wants("newcomer", tt.waiting), "")
			s.gets(waiting[0], tt.want)
			s.gets(waiting[2], "")
		})
	}
}

func TestGrowthServesTheOldestFirst(t *testing.T) {
	s := newFixture(t, group(t, "default", "192.0.2.1-192.0.2.1"))
	s.gets(s.wants("holder"), "192.0.2.1")
	first, second, third := s.wants("z"), s.wants("y"), s.wants("x")
	for _, r := range []service.Request{third, first, second} { // in any order
		s.gets(r, "")
	}
	s.offer(group(t, "default", "192.0.2.1-192.0.2.3"))
	s.only(owner(first), owner(second))
	s.gets(third, "")
	s.gets(second, "192.0.2.3")
	s.gets(first, "192.0.2.2")
}

func TestRecreatedServiceWaitsAtTheEnd(t *testing.T) {
	s := newFixture(t, group(t, "default", "192.0.2.1-192.0.2.1"))
	holder := s.gets(s.wants("holder"), "192.0.2.1")
	s.gets(s.wants("a"), "")
	b := s.gets(s.wants("b"), "")
	a := s.gets(s.wants("a"), "") // deleted and created again without an event
	s.forget(owner(holder))
	s.gets(a, "")
	s.gets(b, "192.0.2.1")
}

func TestReplacementMayComeFromTheSamePool(t *testing.T) {
	pools := func(exclude ...string) groups.Group {
		p, err := groups.ParsePool("192.0.2.1-192.0.2.2", "192.0.2.0/24", "default", exclude...)
		must(t, err)
		return groups.Group{Name: "default", Announce: groups.AnnounceRemote, Pools: []groups.Pool{p}}
	}
	s := newFixture(t, pools())
	r := s.gets(s.wants("svc"), "192.0.2.1")
	full := s.gets(s.wants("full"), "192.0.2.2")
	s.offer(pools("192.0.2.1"))
	r.Reevaluate = true
	r = s.gets(r, "192.0.2.1")
	clear(s.woken)
	s.forget(owner(full))
	s.only(owner(r))
	s.gets(r, "192.0.2.2")
}

func TestEachWaiterIsAskedOncePerAddress(t *testing.T) {
	const n = 1000
	tests := []struct {
		name string
		// do frees an address for the waiting Services, with room for all their ports.
		do    func(s *fixture)
		freed string
	}{
		{"after its release", func(s *fixture) { s.forget("default/holder") }, "192.0.2.1"},
		{"after the pool grows", func(s *fixture) { s.offer(group(t, "default", "192.0.2.1-192.0.2.2")) }, "192.0.2.2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newFixture(t, group(t, "default", "192.0.2.1-192.0.2.1"))
			s.gets(s.wants("holder"), "192.0.2.1")
			for i := range n {
				for _, name := range []string{"one", "two"} { // the second one finds its port in use
					s.gets(s.wants(fmt.Sprintf("%s-%d", name, i), keyed("key", int32(i+1))), "")
				}
			}
			s.costs(5*n, "room for all ports", func() { tt.do(s) })
			if got := len(s.cluster.Store.Holders(netip.MustParseAddr(tt.freed))); got != n {
				t.Errorf("%d Services have the address, want %d", got, n)
			}
		})
	}
}

func TestKeyOfOtherNamespacesCostsNothing(t *testing.T) {
	const n = 500
	s := newFixture(t, group(t, "default", "10.0.0.1-10.0.0.1"))
	s.gets(s.wants("holder"), "10.0.0.1")
	for i := range 2 * n {
		r := s.wants("web", keyed("key", 80))
		r.Namespace = fmt.Sprintf("team-%d", i)
		s.gets(r, "")
	}
	s.costs(2*n, "room for half of them", func() { s.offer(group(t, "default", fmt.Sprintf("10.0.0.1-10.0.%d.%d", n/256, n%256))) })
}

func TestWaiterIsServedByItsNewestKey(t *testing.T) {
	g := group(t, "default", "192.0.2.1-192.0.2.1")
	g.SharedAcrossNamespaces = true
	s := newFixture(t, g)
	a := s.gets(s.wants("a", keyed("key", 1)), "192.0.2.1")
	s.gets(s.wants("b", keyed("key", 2)), "192.0.2.1")
	c := s.wants("c", keyed("key", 3))
	c.Namespace = "blue"
	s.gets(c, "192.0.2.1")
	g.SharedAcrossNamespaces = false
	s.offer(g)
	a.SharingKey = "other"
	s.gets(a, "192.0.2.1")
	waiting := s.gets(s.wants("waiting", keyed("key", 4)), "")
	clear(s.woken)
	s.forget("blue/c")
	s.only(owner(waiting))
	s.gets(waiting, "192.0.2.1")
}

func TestNothingIsLeftOfWaiters(t *testing.T) {
	s := newFixture(t, group(t, "default", "192.0.2.1-192.0.2.1"))
	holder := s.gets(s.wants("holder", keyed("key", 80)), "192.0.2.1")
	for _, r := range []service.Request{
		s.wants("a", keyed("key", 80)), s.wants("b"), s.wants("c", asking("192.0.2.1")), s.wants("d", families(service.Some, addr.V4, addr.V6)),
	} {
		s.gets(r, "")
		s.forget(owner(r))
	}
	s.forget(owner(holder))
	if len(s.waiters)+len(s.services) > 0 {
		t.Errorf("waiters %v, services %v", s.waiters, s.services)
	}
}
