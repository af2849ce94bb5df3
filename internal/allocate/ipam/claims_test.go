package ipam_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// backed is a cluster with a local group "default", and a group "box" whose addresses a
// backend manages.
type backed struct {
	t *testing.T
	ipam.Cluster
	// due are the holders with work, and busy those with a request in flight.
	due  []ipam.Holder
	busy map[ipam.Holder]bool
	// taken is the work that was taken and not yet checked.
	taken ipam.Work
}

func newBacked(t *testing.T, boxFirst bool) *backed {
	t.Helper()
	def := group(t, "default", groups.AnnounceLocal, "198.51.100.10-198.51.100.11", "198.51.100.0/24")
	box := groups.Group{Name: "box", Backend: "NetBox", Announce: groups.AnnounceRemote}
	if boxFirst {
		high, low := int32(2), int32(1)
		def.Namespaces, def.Priority = []string{"default"}, &low
		box.Namespaces, box.Priority = []string{"default"}, &high
	}
	all := []groups.Group{def, box}
	store := ipam.NewStore()
	c := ipam.Cluster{Groups: groups.New(all, all, nil, nil), Store: store, Claims: ipam.NewClaims(store)}
	c.Claims.SetCluster("test")
	c.Boundaries = ipam.BoundariesOf(c.Groups, map[string]map[string]string{"default": {}})
	return &backed{t: t, Cluster: c, busy: map[ipam.Holder]bool{}}
}

// waiting is a backed in which default/web waits for an address of "box".
func waiting(t *testing.T) (*backed, service.Request) {
	t.Helper()
	b, r := newBacked(t, false), web("4", of("box"))
	b.choose(r)
	return b, r
}

// withGrant is a backed in which the backend has granted address to default/web, which has not
// chosen it yet.
func withGrant(t *testing.T, address string) (*backed, service.Request) {
	t.Helper()
	b, r := waiting(t)
	b.answer(b.send(webV4), granted(address))
	return b, r
}

// adopted is a backed whose backend manages 203.0.113.7, which default/web shows.
func adopted(t *testing.T) (*backed, service.Request) {
	t.Helper()
	b, r := newBacked(t, false), web("4", of("box"), holding("203.0.113.7"), from("box", service.PoolRemote))
	g, _ := b.Groups.Group("box")
	b.Claims.Adopt(b.ClaimOf(r, g, addr.V4), r.Held[0])
	b.Store.Show(r.Held[0], "default/web")
	return b, r
}

// gets checks how many addresses r gets.
func (b *backed) gets(r service.Request, n int) {
	b.t.Helper()
	if choice := b.choose(r); len(choice.Result.Addresses) != n {
		b.t.Errorf("got %s, want %d addresses", show(choice), n)
	}
}

// choose chooses for r, and stores the choice as the allocator does.
func (b *backed) choose(r service.Request) ipam.Choice {
	b.t.Helper()
	choice := b.Choose(r)
	who := ipam.Owner(r.Key())
	for _, a := range choice.Result.Addresses {
		if err := b.Store.Hold(a, who, b.Wide(a)); err != nil {
			b.t.Fatal(err)
		}
	}
	b.due = append(b.due, b.Claims.Want(who, choice.Claims)...)
	return choice
}

// drop ends everything that a Service holds and waits for.
func (b *backed) drop(r service.Request) {
	who := ipam.Owner(r.Key())
	due := b.Claims.Want(who, nil)
	left := b.Store.Forget(who)
	b.due = append(append(b.due, due...), b.Claims.Left(left)...)
}

// take takes the work of the holders that are due.
func (b *backed) take() {
	var later []ipam.Holder
	for i, h := range b.due {
		if slices.Contains(b.due[:i], h) {
			continue
		}
		if h.Group != "box" {
			continue // it has no worker
		}
		if b.busy[h] {
			later = append(later, h)
			continue
		}
		w := b.Claims.Work(h)
		b.busy[h] = len(w.Claims)+len(w.Release) > 0
		b.taken.Claims, b.taken.Release = append(b.taken.Claims, w.Claims...), append(b.taken.Release, w.Release...)
	}
	b.due = later
}

// later makes everything due that has work.
func (b *backed) later() { b.due = append(b.due, b.Claims.Pending("box")...) }

// register makes the backend be told of all grants.
func (b *backed) register() {
	b.Claims.Register("box", b.Claims.Grants()["box"])
	b.later()
}

func holderOf(key string) ipam.Holder { return ipam.Holder{Group: "box", Name: ipam.HolderOf(key)} }

// send takes the claims that must be sent. It fails if their keys differ from keys.
func (b *backed) send(keys ...string) []ipam.Claim {
	b.t.Helper()
	b.take()
	claims := b.taken.Claims
	b.taken.Claims = nil
	var got []string
	for _, c := range claims {
		got = append(got, c.Key)
	}
	if !slices.Equal(got, keys) {
		b.t.Fatalf("claims to send: %q, want %q", got, keys)
	}
	return claims
}

func (b *backed) answer(claims []ipam.Claim, answers ...ipam.Answer) (wanters []ipam.Owner, got []netip.Addr) {
	for len(claims) > 0 {
		h, n := claims[0].Holder(), 1
		for n < len(claims) && claims[n].Holder() == h {
			n++
		}
		some, addresses, next := b.Claims.Answered(h, claims[:n], answers[:n], b.Usable)
		wanters, got, claims, answers = append(wanters, some...), append(got, addresses...), claims[n:], answers[n:]
		b.done(h, next)
	}
	return wanters, got
}

// released ends the release of grants of one holder.
func (b *backed) released(grants []ipam.Grant, errs ...error) {
	h := holderOf(grants[0].Key)
	b.done(h, b.Claims.Released(h, grants, errs))
}

func (b *backed) done(h ipam.Holder, next ipam.Due) {
	if b.busy[h] = false; next == ipam.DueNow {
		b.due = append(b.due, h)
	}
}

// returns takes the grants that must be given back. It fails if their addresses differ from
// addresses.
func (b *backed) returns(addresses ...string) []ipam.Grant {
	b.t.Helper()
	b.take()
	grants := b.taken.Release
	b.taken.Release = nil
	var got []netip.Addr
	for _, g := range grants {
		got = append(got, g.Address)
	}
	var want []netip.Addr
	for _, text := range addresses {
		a, _ := netip.ParseAddr(text)
		want = append(want, a)
	}
	if !slices.Equal(got, want) {
		b.t.Fatalf("grants to give back: %v, want %v", got, want)
	}
	return grants
}

func granted(text string) ipam.Answer {
	return ipam.Answer{Grant: ipam.Grant{Address: netip.MustParseAddr(text)}}
}

func failed(kind ipam.Kind) ipam.Answer {
	return ipam.Answer{Err: &ipam.Error{Kind: kind, Message: "the backend says " + string(kind)}}
}

const webV4, webV6 = "test/default/web/box/v4", "test/default/web/box/v6"

func TestServiceWaitsForItsBackend(t *testing.T) {
	b := newBacked(t, false)
	r := web("4", of("box"))
	choice := b.choose(r)
	if len(choice.Result.Addresses) > 0 || choice.Refusal == nil || !choice.Refusal.Claiming || choice.Result.Reason != ipam.ReasonBackend {
		t.Fatalf("before the answer: %s", show(choice))
	}
	claims := b.send(webV4)
	b.send() // only once
	wanters, got := b.answer(claims, granted("203.0.113.7"))
	if len(got) != 1 || got[0].String() != "203.0.113.7" || !slices.Equal(wanters, []ipam.Owner{"default/web"}) {
		t.Fatalf("%q get %q", wanters, got)
	}
	choice = b.choose(r)
	if show := choice.Result; len(show.Addresses) != 1 || show.From != "box" || show.PoolType != service.PoolRemote || choice.Refusal != nil {
		t.Fatalf("after the answer: %+v", show)
	}
	// The choice is written.
	r.Held, r.From = choice.Result.Addresses, "box"
	if choice = b.choose(r); len(choice.Claims) != 0 || choice.Refusal != nil {
		t.Errorf("after the write: %+v", choice)
	}
	b.returns()
	b.drop(r)
	back := b.returns("203.0.113.7")
	b.released(back, nil)
	b.returns()
	if left := b.Claims.Grants()["box"]; len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestBackendAnswerDecidesTheNextStep(t *testing.T) {
	tests := map[string]struct {
		answer ipam.Answer
		reason string
		next   string // the address of the next group
	}{
		"exhausted":     {failed(ipam.KindExhausted), ipam.ReasonAllocated, "198.51.100.10"},
		"taken":         {failed(ipam.KindTaken), ipam.ReasonInUse, ""},
		"invalid":       {failed(ipam.KindInvalid), ipam.ReasonBackendRefused, ""},
		"misconfigured": {failed(ipam.KindMisconfigured), ipam.ReasonBackendMisconfigured, ""},
		"unavailable":   {failed(ipam.KindUnavailable), ipam.ReasonBackendUnavailable, ""},
		"unknown":       {failed(ipam.KindUnknown), ipam.ReasonBackendUnavailable, ""},
		"another pool":  {granted("198.51.100.11"), ipam.ReasonInUse, ""},
		"loopback":      {granted("127.0.0.1"), ipam.ReasonInUse, ""},
		"other family":  {granted("2001:db8::1"), ipam.ReasonInUse, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBacked(t, true)
			r := web("4")
			b.choose(r)
			b.answer(b.send(webV4), test.answer)
			choice := b.choose(r)
			var got string
			if len(choice.Result.Addresses) > 0 {
				got = choice.Result.Addresses[0].String()
			}
			if choice.Result.Reason != test.reason || got != test.next {
				t.Errorf("chose %q with %s, want %q with %s", got, choice.Result.Reason, test.next, test.reason)
			}
			b.send() // not at once
			b.later()
			if test.next == "" {
				b.send(webV4)
			}
		})
	}
}

func TestGrantOfAHeldAddressIsRefused(t *testing.T) {
	b := newBacked(t, false)
	b.Store.Show(netip.MustParseAddr("203.0.113.7"), "default/older") // the address is in no pool
	r := web("4", of("box"))
	b.choose(r)
	b.answer(b.send(webV4), granted("203.0.113.7"))
	choice := b.choose(r)
	if choice.Result.Reason != ipam.ReasonInUse || !strings.Contains(choice.Result.Message, "default/older") {
		t.Errorf("chose %s, want a refusal that names default/older", show(choice))
	}
}

func TestBothFamiliesAreClaimedTogether(t *testing.T) {
	b := newBacked(t, false)
	r := web("46", of("box"))
	b.choose(r)
	other := web("4", of("box"), named("api"))
	b.choose(other)
	claims := b.send(webV4, webV6, "test/default/api/box/v4")
	b.answer(claims[:2], granted("203.0.113.7"), failed(ipam.KindExhausted))
	choice := b.choose(r)
	if len(choice.Result.Addresses) > 0 || choice.Result.Reason != ipam.ReasonExhausted {
		t.Fatalf("with one of two grants: %s", show(choice))
	}
	b.returns() // the Service keeps its grant while it waits for the rest
	if h, ok := b.Claims.Exhausted("box", addr.V6); !ok || h != holderOf(webV6) {
		t.Errorf("%v waits for a free address", h)
	}
	if h, ok := b.Claims.Exhausted("box", addr.V4); ok {
		t.Errorf("%v waits for a free address", h)
	}
	b.later()
	b.answer(b.send(webV6), granted("2001:db8::7"))
	if choice = b.choose(r); len(choice.Result.Addresses) != 2 {
		t.Errorf("with both: %s", show(choice))
	}
}

func TestServiceGetsTheRequestedBackendAddress(t *testing.T) {
	b := newBacked(t, false)
	r := web("4", of("box"), asking("203.0.113.9"))
	if choice := b.choose(r); choice.Refusal == nil || !choice.Refusal.Claiming {
		t.Fatalf("before the answer: %s", show(choice))
	}
	claims := b.send(webV4)
	if claims[0].Address.String() != "203.0.113.9" {
		t.Fatalf("asked for %v", claims[0].Address)
	}
	b.answer(claims, granted("203.0.113.9"))
	// Another Service cannot get the address by asking for it first.
	thief := web("4", asking("203.0.113.9"), named("thief"))
	if choice := b.choose(thief); len(choice.Result.Addresses) > 0 || choice.Result.Reason != ipam.ReasonInUse {
		t.Errorf("the thief: %s", show(choice))
	}
	b.gets(r, 1)
}

func TestShownAddressIsAdoptedAndRegistered(t *testing.T) {
	b, r := adopted(t)
	b.send()
	if choice := b.choose(r); choice.Refusal != nil || len(choice.Claims) > 0 || choice.Result.Reason != ipam.ReasonAllocated {
		t.Fatalf("chose %s", show(choice))
	}
	b.register()
	claims := b.send(webV4)
	if claims[0].Address != r.Held[0] {
		t.Fatalf("registers %v", claims[0].Address)
	}
	b.answer(claims, failed(ipam.KindTaken))
	if choice := b.choose(r); choice.Refusal != nil || !slices.Equal(choice.Result.Addresses, r.Held) {
		t.Errorf("the Service lost its address: %s", show(choice))
	}
	b.drop(r)
	b.returns("203.0.113.7")
}

func TestGrantInsideALocalPoolIsNotUsed(t *testing.T) {
	b, r := withGrant(t, "203.0.113.7")
	all := append(slices.Clone(b.Groups.Usable), group(t, "new", groups.AnnounceLocal, "203.0.113.7-203.0.113.9", "203.0.113.0/24"))
	b.Groups = groups.New(all, all, nil, nil)
	if choice := b.choose(r); len(choice.Result.Addresses) > 0 || choice.Result.Reason != ipam.ReasonInUse {
		t.Errorf("chose %s", show(choice))
	}
}

func TestGrantHeldByAnotherServiceComesLater(t *testing.T) {
	b, r := withGrant(t, "203.0.113.7")
	b.Store.Show(netip.MustParseAddr("203.0.113.7"), "default/api")
	choice := b.choose(r)
	if choice.Refusal == nil || choice.Refusal.Claiming || choice.Result.Reason != ipam.ReasonInUse || !slices.Contains(choice.Needs, ipam.Need{Addr: netip.MustParseAddr("203.0.113.7")}) {
		t.Errorf("chose %s", show(choice))
	}
	b.Store.Forget("default/api")
	b.gets(r, 1)
}

// The backend granted an address that another Service has. The Service that it was for is deleted.
func TestAServiceWithAnUnusableGrantCanEnd(t *testing.T) {
	b := newBacked(t, false)
	b.Store.Show(netip.MustParseAddr("203.0.113.7"), "default/older")
	r := web("4", of("box"))
	b.choose(r)
	b.answer(b.send(webV4), granted("203.0.113.7"))
	b.choose(r)
	b.drop(r)
	b.later()
	b.take()
	if len(b.taken.Release) > 0 {
		t.Errorf("the address of another Service is released: %v", b.taken.Release)
	}
	g, _ := b.Groups.Group("box")
	if b.Claims.Has(b.ClaimOf(r, g, addr.V4), "default/web") {
		t.Error("the Service waits for a release that does not come while another Service has the address")
	}
}
