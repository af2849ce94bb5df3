package ipam_test

import (
	"net/netip"
	"slices"
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/service"
)

func TestOrphansAreOnlyNamed(t *testing.T) {
	b, r := adopted(t)
	waiting := web("4", of("box"), named("api"))
	b.choose(waiting)
	orphan := func(key, text string) ipam.Grant { return ipam.Grant{Key: key, Address: netip.MustParseAddr(text)} }
	orphans, _ := b.Claims.Learn("box", []ipam.Grant{
		orphan("test/default/gone/box/v4", "203.0.113.8"),
		orphan("test/default/api/box/v4", "203.0.113.9"),        // its claim is in progress
		orphan("test/default/shared:old/box/v4", "203.0.113.7"), // the address of web
	})
	if len(orphans) != 1 || orphans[0].Address.String() != "203.0.113.8" {
		t.Errorf("orphans %v", orphans)
	}
	b.returns()
	b.drop(r)
	if back := b.returns("203.0.113.7"); back[0].Key != "test/default/shared:old/box/v4" {
		t.Errorf("given back under the key %s", back[0].Key)
	}
}

func TestAddressOfARenamedGroupIsAnOrphan(t *testing.T) {
	b := newBacked(t, false)
	r := web("4", of("box"), holding("203.0.113.7"), from("box", service.PoolRemote))
	g, _ := b.Groups.Group("box")
	before := g
	before.Name = "before"
	claim := b.ClaimOf(r, before, addr.V4)
	b.Claims.Adopt(claim, r.Held[0])
	b.Store.Show(r.Held[0], "default/web")
	grants := []ipam.Grant{{Key: claim.Key, Address: r.Held[0]}}
	if orphans, _ := b.Claims.Learn("box", grants); len(orphans) > 0 {
		t.Error("the sweep takes an address in use for an orphan")
	}
	b.drop(r)
	if orphans, _ := b.Claims.Learn("box", grants); len(orphans) != 1 {
		t.Error("the sweep misses an orphan of a renamed group")
	}
	b.returns()
}

func TestOrphanInUseBelongsToItsService(t *testing.T) {
	orphan := []ipam.Grant{{Key: "test/default/shared:old/box/v4", Address: netip.MustParseAddr("203.0.113.7")}}
	t.Run("without a claim", func(t *testing.T) {
		b := newBacked(t, false)
		b.Store.Show(orphan[0].Address, "default/web") // no record says that a backend granted the address
		b.Claims.Learn("box", orphan)
		b.returns()
		b.drop(web("4"))
		b.returns("203.0.113.7")
	})
	t.Run("granted to it while another claim was in progress", func(t *testing.T) {
		b := newBacked(t, false)
		r, other := web("4", of("box")), web("4", of("box"), named("api"))
		b.choose(other)
		claims := b.send("test/default/api/box/v4")
		b.drop(other)
		b.choose(r)
		b.answer(b.send(webV4), granted("203.0.113.7"))
		b.choose(r)
		b.choose(r) // the Service has the address and no longer waits
		b.answer(claims, granted("203.0.113.7"))
		b.returns()
		b.drop(r)
		var keys []string
		for _, g := range b.returns("203.0.113.7", "203.0.113.7") {
			keys = append(keys, g.Key)
		}
		if slices.Sort(keys); !slices.Equal(keys, []string{"test/default/api/box/v4", webV4}) {
			t.Errorf("gives back %s", keys)
		}
	})
}

// The backend lost a grant that no Service has yet.
func TestLostGrantIsReplaced(t *testing.T) {
	b := newBacked(t, false)
	r := web("46", of("box"))
	b.choose(r)
	b.answer(b.send(webV4, webV6), granted("203.0.113.7"), failed(ipam.KindExhausted))
	b.choose(r) // the Service waits for the other family, so it does not have the address yet
	b.register()
	b.answer(b.send(webV4, webV6), failed(ipam.KindTaken), failed(ipam.KindExhausted))
	if _, group := b.Claims.GrantOf(netip.MustParseAddr("203.0.113.7")); group != "" {
		t.Error("the address is still granted to it")
	}
}

// The backend lost the grant of an address in use, and answers its registration by another address.
func TestAWrongAnswerToARegistrationCostsNoAddress(t *testing.T) {
	b, r := adopted(t)
	b.register()
	b.answer(b.send(webV4), granted("203.0.113.8"))
	b.released(b.returns("203.0.113.8"), nil)
	b.returns()
	b.register()
	if claims := b.send(webV4); claims[0].Address != r.Held[0] {
		t.Errorf("claims %s, and the Service has %s", claims[0].Address, r.Held[0])
	}
}

// The backend lost the grant of an address in use, granted another one for its registration, and the answer was lost.
func TestALostAnswerToARegistrationIsAskedAgain(t *testing.T) {
	b, r := adopted(t)
	b.register()
	b.answer(b.send(webV4), failed(ipam.KindUnknown))
	b.drop(r)
	b.released(b.returns("203.0.113.7"), nil)
	b.answer(b.send(webV4), granted("203.0.113.8"))
	b.returns("203.0.113.8")
}

// The backend has an address for a key of a Service, which has that address by another key.
func TestSurplusInUseIsGivenBackLater(t *testing.T) {
	b := newBacked(t, false)
	web, other := web("4", of("box")), web("4", of("box"), named("api"))
	b.choose(other)
	b.answer(b.send("test/default/api/box/v4"), granted("203.0.113.7"))
	b.choose(other)
	b.choose(web)
	surplus := failed(ipam.KindInvalid)
	surplus.Surplus = []netip.Addr{netip.MustParseAddr("203.0.113.7")}
	b.answer(b.send(webV4), surplus)
	b.drop(web)
	b.returns()
	b.drop(other)
	b.returns("203.0.113.7", "203.0.113.7")
}

// A Service was deleted, and a new one has its name. No grant is known for the address of the new one.
func TestDepartureSparesANewServiceOfTheName(t *testing.T) {
	b := newBacked(t, false)
	h := holderOf(webV4)
	b.Claims.Depart(h, webV4)
	b.Store.Show(netip.MustParseAddr("203.0.113.7"), "default/web")
	if w := b.Claims.Work(h); len(w.Release) > 0 {
		t.Errorf("gives back %v", w.Release)
	}
}

// The backend granted the Service an address of another one, which stays there. It may have more for the Service.
func TestDepartureGivesBackTheRest(t *testing.T) {
	b := newBacked(t, false)
	b.Store.Show(netip.MustParseAddr("203.0.113.7"), "default/older")
	b.Claims.Learn("box", []ipam.Grant{{Key: webV4, Address: netip.MustParseAddr("203.0.113.7")}})
	b.Claims.Depart(holderOf(webV4), webV4)
	b.later()
	b.answer(b.send(webV6), granted("2001:db8::7"))
	b.released(b.returns("2001:db8::7"), nil)
	b.later()
	b.returns()
}
