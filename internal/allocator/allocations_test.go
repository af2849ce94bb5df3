package allocator

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/ipam"
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
func newFixture(t testing.TB, groups ...ipam.Group) *fixture {
	s := &fixture{TB: t, woken: map[ipam.Owner]bool{}}
	s.allocations = newAllocations(func(owners ...ipam.Owner) {
		for _, o := range owners {
			s.woken[o] = true
		}
	})
	s.offer(groups...)
	s.open(nil)
	return s
}

// forget deletes a Service.
func (s *fixture) forget(who ipam.Owner) { s.allocations.forget(who, "") }

// offer replaces the groups of the allocations.
func (s *fixture) offer(groups ...ipam.Group) {
	s.change(clusterState{config: config.Config{Groups: ipam.Groups{Usable: groups}}})
}

// group makes a group of remote addresses from ranges. Their subnets are networks of 2^16
// addresses.
func group(t testing.TB, name string, ranges ...string) ipam.Group {
	t.Helper()
	g := ipam.Group{Name: name, Announce: ipam.AnnounceRemote}
	for _, text := range ranges {
		first := netip.MustParseAddr(strings.SplitN(text, "-", 2)[0])
		subnet, _ := first.Prefix(first.BitLen() - 16)
		p, err := ipam.ParsePool(text, subnet.String(), "default")
		if err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		s.Fatal(err)
	}
	if got := strings.ReplaceAll(texts(d.Result.Addresses), ",", ""); got != want {
		s.Fatalf("%s gets %q, want %q (%s: %s)", r.Key(), got, want, d.Result.Reason, d.Result.Message)
	}
	s.settle(owner(r), d.Result.Addresses)
	r.Held, r.From, r.PoolType = d.Result.Addresses, d.Result.From, d.Result.PoolType
	return r
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
	if err != nil {
		t.Fatal(err)
	}
	s.forget(owner(holder)) // this frees 2001:db8::1
	s.settle(owner(waiter), partly.Result.Addresses)
	s.gets(s.wants("newcomer", families(service.All, addr.V6)), "")
	if !s.woken[owner(waiter)] {
		t.Fatal("the waiting Service is not queued")
	}
	s.gets(waiter, "192.0.2.1 2001:db8::1")
}

func TestNewAddressIsTakenBeforeTheOldIsFreed(t *testing.T) {
	s := newFixture(t, group(t, "default", "192.0.2.1-192.0.2.2"))
	r := s.gets(s.wants("a"), "192.0.2.1")
	asking("192.0.2.2")(&r)
	d, err := s.decide(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := texts(d.Result.Addresses); got != "192.0.2.2" || texts(d.ended) != "192.0.2.1" {
		t.Fatalf("gets %s, and %s ends", got, texts(d.ended))
	}
	// The old address is in use until the Service no longer shows it.
	s.gets(s.wants("b"), "")
	s.settle(owner(r), d.Result.Addresses)
	if !s.woken["default/b"] {
		t.Fatal("the Service that waits for the old address is not queued")
	}
}

func TestOldAddressStaysUntilTheNewOneIsFree(t *testing.T) {
	s := newFixture(t, group(t, "default", "192.0.2.1-192.0.2.2"))
	a, b := s.gets(s.wants("a"), "192.0.2.1"), s.gets(s.wants("b"), "192.0.2.2")
	asking("192.0.2.2")(&a)
	a = s.gets(a, "192.0.2.1")
	s.costs(2, "the requested address becomes free", func() { s.forget(owner(b)) })
	if !s.woken[owner(a)] {
		t.Fatal("the waiting Service is not queued")
	}
	s.gets(a, "192.0.2.2")
	s.gets(s.wants("c"), "192.0.2.1")
}

func TestForgedStatusAddressIsNotKept(t *testing.T) {
	s := newFixture(t, group(t, "default", "192.0.2.1-192.0.2.3", "2001:db8::1-2001:db8::1"))
	s.gets(s.wants("other"), "192.0.2.1")
	six := s.gets(s.wants("six", families(service.All, addr.V6)), "2001:db8::1")
	a := s.gets(s.wants("a", families(service.Some, addr.V6, addr.V4)), "192.0.2.2")
	for _, forged := range [][]string{{"192.0.2.1"}, {"192.0.2.3"}, {"192.0.2.3", "192.0.2.2"}, {"2001:db8::1", "192.0.2.2"}, {}} {
		a.Held = nil
		for _, text := range forged {
			a.Held = append(a.Held, netip.MustParseAddr(text))
		}
		s.gets(a, "192.0.2.2")
	}
	s.forget(owner(six))
	waiting := s.gets(s.wants("w", asking("192.0.2.1")), "")
	waiting.Held = []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	s.gets(waiting, "")
}

func TestContentionEndsWhenServicesShare(t *testing.T) {
	s := &fixture{TB: t, woken: map[ipam.Owner]bool{}}
	s.allocations = newAllocations(func(owners ...ipam.Owner) {
		for _, o := range owners {
			s.woken[o] = true
		}
	})
	s.offer(group(t, "default", "192.0.2.1-192.0.2.2"))
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

func TestNoServiceJoinsAContendedAddress(t *testing.T) {
	pools := group(t, "default", "192.0.2.1-192.0.2.1")
	s := newFixture(t, pools)
	a := s.gets(s.wants("a", keyed("key", 443)), "192.0.2.1")
	b := s.gets(s.wants("b", keyed("key", 80)), "192.0.2.1")
	a.SharingKey = "other"
	a = s.gets(a, "192.0.2.1")
	again := newFixture(t)
	again.age = s.age
	again.allocations = newAllocations(func(owners ...ipam.Owner) {
		for _, o := range owners {
			again.woken[o] = true
		}
	})
	again.offer(pools)
	again.open([]service.Request{a, b})
	late := again.gets(again.wants("late", keyed("other", 80)), "")
	pinned := again.gets(again.wants("pinned", keyed("other", 81), asking("192.0.2.1")), "")
	b = again.gets(b, "192.0.2.1")
	clear(again.woken)
	again.forget(owner(b))
	again.only(owner(late), owner(pinned))
	again.gets(late, "192.0.2.1")
	again.gets(pinned, "192.0.2.1")
}

func TestChoiceIsDroppedWhenSharingEnds(t *testing.T) {
	s := newFixture(t, group(t, "default", "192.0.2.1-192.0.2.9"))
	s.gets(s.wants("b", keyed("key", 81)), "192.0.2.1")
	a := s.wants("a", keyed("key", 80))
	if _, err := s.decide(a); err != nil { // the write of this decision ends in a conflict
		t.Fatal(err)
	}
	keyed("", 80)(&a)
	s.gets(a, "192.0.2.2")
	if got := s.cluster.Store.Holders(netip.MustParseAddr("192.0.2.1")); len(got) != 1 {
		t.Errorf("the old address is held by %s", got)
	}
}

func TestPendingListsServicesThatWouldChange(t *testing.T) {
	s := newFixture(t, group(t, "default", "192.0.2.1-192.0.2.2"))
	kept, none, foreign := s.wants("kept"), s.wants("none"), s.wants("foreign")
	refused := s.wants("refused", asking("10.0.0.1"))
	young := s.wants("young")
	anew := s.wants("anew", func(r *service.Request) { r.Reevaluate = true })
	anew.Held = []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	kept.Held = []netip.Addr{netip.MustParseAddr("192.0.2.2")}
	foreign.Owner = service.Anothers
	got := fmt.Sprint(names(s.pending([]service.Request{anew, young, refused, foreign, none, kept})))
	if want := "[none refused young anew]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if n := len(s.cluster.Store.Held("default/kept")) + len(s.services); n > 0 {
		t.Error("a read changed the allocations")
	}
}

func names(requests []service.Request) []string {
	var all []string
	for _, r := range requests {
		all = append(all, r.Name)
	}
	return all
}
