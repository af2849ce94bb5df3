package allocate

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/census"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// fixture is a set of open allocations, with the Services that they woke.
type fixture struct {
	testing.TB
	*allocations
	woken map[ipam.Owner]bool
	age   int64
}

// newFixture opens allocations with these groups.
func newFixture(t testing.TB, groups ...groups.Group) *fixture {
	s := closedFixture(t, groups...)
	s.open(nil)
	return s
}

// closedFixture is a fixture that has not opened its allocations yet.
func closedFixture(t testing.TB, groups ...groups.Group) *fixture {
	s := &fixture{TB: t, woken: map[ipam.Owner]bool{}}
	s.allocations = newAllocations(func(owners ...ipam.Owner) {
		for _, o := range owners {
			s.woken[o] = true
		}
	})
	s.offer(groups...)
	return s
}

// must ends the test if there is an error.
func must(t interface {
	Helper()
	Fatal(...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// forget deletes a Service.
func (s *fixture) forget(who ipam.Owner) { s.allocations.forget(who, "") }

// offer replaces the groups of the allocations.
func (s *fixture) offer(all ...groups.Group) {
	s.change(clusterState{State: census.State{Config: config.Config{Groups: groups.Groups{Usable: all}}}})
}

// group makes a group of remote addresses from ranges. Their subnets are networks of 2^16
// addresses.
func group(t testing.TB, name string, ranges ...string) groups.Group {
	t.Helper()
	g := groups.Group{Name: name, Announce: groups.AnnounceRemote}
	for _, text := range ranges {
		first := netip.MustParseAddr(strings.SplitN(text, "-", 2)[0])
		subnet, _ := first.Prefix(first.BitLen() - 16)
		p, err := groups.ParsePool(text, subnet.String(), "default")
		must(t, err)
		g.Pools = append(g.Pools, p)
	}
	return g
}

// wants returns a new Service, which is younger than all Services before it.
func (s *fixture) wants(name string, change ...func(*service.Request)) service.Request {
	s.age++
	r := service.Request{
		Namespace: "default", Name: name, Created: time.Unix(s.age, 0),
		Policy: service.All, Families: []addr.Family{addr.V4}, Ports: []service.Port{{Protocol: "TCP", Number: 80}},
		Bound: true, // it may claim addresses of backends
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func keyed(key string, port int32) func(*service.Request) {
	return func(r *service.Request) { r.SharingKey, r.Ports = key, []service.Port{{Protocol: "TCP", Number: port}} }
}

func asking(addresses ...string) func(*service.Request) {
	return func(r *service.Request) {
		for _, a := range addresses {
			r.Asked = append(r.Asked, netip.MustParseAddr(a))
		}
	}
}

func families(policy service.Policy, families ...addr.Family) func(*service.Request) {
	return func(r *service.Request) { r.Policy, r.Families = policy, families }
}

// gets decides for r, as if the API server had stored the decision. It fails unless r gets these
// addresses, separated by spaces. It returns r as it is after the write.
func (s *fixture) gets(r service.Request, want string) service.Request {
	s.Helper()
	d, err := s.decide(r)
	must(s, err)
	if got := strings.ReplaceAll(addr.Join(d.Result.Addresses, ", "), ",", ""); got != want {
		s.Fatalf("%s gets %q, want %q (%s: %s)", r.Key(), got, want, d.Result.Reason, d.Result.Message)
	}
	s.settle(owner(r), d.Result.Addresses)
	r.Held, r.From, r.PoolType = d.Result.Addresses, d.Result.From, d.Result.PoolType
	return r
}

// wakes fails unless this Service was woken.
func (s *fixture) wakes(who ipam.Owner) {
	s.Helper()
	if !s.woken[who] {
		s.Errorf("%s is not queued", who)
	}
}

// costs fails if do makes more choices than most.
func (s *fixture) costs(most int, what string, do func()) {
	s.Helper()
	before := s.choices
	do()
	if n := s.choices - before; n > most {
		s.Errorf("%s: the allocator made %d choices, want at most %d", what, n, most)
	}
}

func TestWaitersComeBeforeNewcomersDuringAWrite(t *testing.T) {
	s := newFixture(t, group(t, "default", "192.0.2.1-192.0.2.1", "2001:db8::1-2001:db8::1"))
	holder := s.gets(s.wants("holder", families(service.All, addr.V6)), "2001:db8::1")
	waiter := s.wants("waiter", families(service.Some, addr.V4, addr.V6))
	partly, err := s.decide(waiter) // it has 192.0.2.1, and the write of that is in progress
	must(t, err)
	s.forget(owner(holder)) // this frees 2001:db8::1
	s.settle(owner(waiter), partly.Result.Addresses)
	s.gets(s.wants("newcomer", families(service.All, addr.V6)), "")
	s.wakes(owner(waiter))
	s.gets(waiter, "192.0.2.1 2001:db8::1")
}

func TestContentionEndsWhenServicesShare(t *testing.T) {
	s := closedFixture(t, group(t, "default", "192.0.2.1-192.0.2.2"))
	given := func(name string, port int32) service.Request {
		r := s.wants(name, keyed("", port))
		r.Held = []netip.Addr{netip.MustParseAddr("192.0.2.1")}
		return r
	}
	a, b, c := given("a", 80), given("b", 443), given("c", 8080)
	s.open([]service.Request{c, b, a})
	for _, r := range []service.Request{a, b, c} {
		s.gets(r, "192.0.2.1")
	}
	if got := len(s.cluster.Store.Contenders(a.Held[0])); got != 2 {
		t.Fatalf("%d Services contend, want b and c", got)
	}
	a.SharingKey, b.SharingKey = "key", "key"
	clear(s.woken)
	s.gets(a, "192.0.2.1")
	s.only(owner(b), owner(c))
	s.gets(b, "192.0.2.1")
	if got := s.cluster.Store.Holders(a.Held[0]); !slices.Equal(got, []ipam.Owner{"default/a", "default/b"}) {
		t.Fatalf("the address is held by %s, want a and b", got)
	}
	if got := s.cluster.Store.Contenders(a.Held[0]); !slices.Equal(got, []ipam.Owner{"default/c"}) {
		t.Fatalf("%s contend for the address, want only c", got)
	}
	s.forget(owner(a))
	s.forget(owner(b))
	if got := s.cluster.Store.Holders(c.Held[0]); !slices.Equal(got, []ipam.Owner{"default/c"}) || len(s.cluster.Store.Contended(owner(c))) > 0 {
		t.Fatalf("the address is held by %s, and c contends for %v; want c, and no contender", got, s.cluster.Store.Contended(owner(c)))
	}
}

// Another controller writes the address of a Service of ours into an older Service, whose user asks
// for its adoption, now or later.
func TestNoAddressOfAServiceOfOursIsAdopted(t *testing.T) {
	for name, adopt := range map[string]bool{"at the start": true, "later": false} {
		t.Run(name, func(t *testing.T) {
			s := closedFixture(t, group(t, "default", "192.0.2.1-192.0.2.1"))
			shows := func(r *service.Request) { r.Held = []netip.Addr{netip.MustParseAddr("192.0.2.1")} }
			theirs := s.wants("theirs", shows, func(r *service.Request) { r.Owner, r.Adopt, r.Strange = service.Anothers, adopt, r.Held })
			ours := s.wants("ours", shows, func(r *service.Request) { r.Vouched, r.From = r.Held, "default" })
			s.open([]service.Request{theirs, ours})
			if by, _ := s.cluster.Store.Holder(ours.Held[0]); by != owner(ours) {
				t.Errorf("192.0.2.1 is held by %s", by)
			}
			theirs.Adopt = true
			if r := s.judged(theirs); r.Owner != service.Anothers || r.NotAdopted != ipam.ReasonInUse {
				t.Errorf("the other Service is %s, %q", r.Owner, r.NotAdopted)
			}
		})
	}
}

func TestNoAddressThatAServiceOfOursContendsForIsAdopted(t *testing.T) {
	s := newFixture(t, group(t, "default", "192.0.2.1-192.0.2.1"))
	shows := func(r *service.Request) { r.Held = []netip.Addr{netip.MustParseAddr("192.0.2.1")} }
	theirs := s.wants("theirs", shows, func(r *service.Request) { r.Owner, r.Strange = service.Anothers, r.Held })
	s.note(theirs)
	_, err := s.decide(s.wants("ours", shows, func(r *service.Request) { r.Vouched, r.From = r.Held, "default" }))
	must(t, err)
	theirs.Adopt = true
	if r := s.judged(theirs); r.Owner != service.Anothers || r.NotAdopted != ipam.ReasonInUse {
		t.Errorf("the other Service is %s, %q", r.Owner, r.NotAdopted)
	}
}

// The condition of the holder says that another controller gave its address to the other Service.
func TestAdoptionOfASharerIsToldToTheHolder(t *testing.T) {
	s := newFixture(t, group(t, "default", "192.0.2.1-192.0.2.1"))
	s.gets(s.wants("holder", keyed("key", 80)), "192.0.2.1")
	theirs := s.wants("theirs", keyed("key", 81), func(r *service.Request) {
		r.Held = []netip.Addr{netip.MustParseAddr("192.0.2.1")}
		r.Owner, r.Strange, r.Adopt = service.Anothers, r.Held, true
	})
	s.note(theirs)
	clear(s.woken)
	_, err := s.decide(s.judged(theirs))
	must(t, err)
	s.wakes("default/holder")
}
