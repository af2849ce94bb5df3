package ipam_test

import (
	"net/netip"
	"testing"

	"purelb.io/purelb/internal/allocate/ipam"
)

func TestUnwantedClaimIsGivenBack(t *testing.T) {
	t.Run("of unknown outcome, after an address that PureLB refused", func(t *testing.T) {
		b, r := withGrant(t, "198.51.100.11")
		b.choose(r)
		b.later()
		b.answer(b.send(webV4), failed(ipam.KindUnknown))
		b.drop(r)
		b.released(b.returns("198.51.100.11"), nil)
		b.answer(b.send(webV4), granted("203.0.113.7"))
		b.returns("203.0.113.7")
	})
	t.Run("refused by PureLB", func(t *testing.T) {
		b, r := withGrant(t, "198.51.100.11")
		b.choose(r)
		b.returns() // otherwise the backend would grant the same address again
		b.drop(r)
		b.returns("198.51.100.11")
	})
	t.Run("created again during the release", func(t *testing.T) {
		b, r := withGrant(t, "203.0.113.7")
		b.drop(r)
		back := b.returns("203.0.113.7")
		b.choose(r)
		b.send() // not at the same time as its release
		b.released(back, failed(ipam.KindUnknown).Err)
		b.later()
		b.send()
		back = b.returns("203.0.113.7")
		b.released(back, nil)
		b.answer(b.send(webV4), granted("203.0.113.8"))
		b.gets(r, 1)
	})
	t.Run("created again before the release", func(t *testing.T) {
		b, r := withGrant(t, "203.0.113.7")
		b.drop(r)
		b.gets(r, 1)
		b.returns()
	})
}

// The group of the grant may have no worker any more, which would give it back.
func TestUnwantedGrantIsNoGrant(t *testing.T) {
	b, r := adopted(t)
	b.drop(r)
	if left := b.Claims.Grants()["box"]; len(left) > 0 {
		t.Errorf("the cluster has %v", left)
	}
	if g, _, known := b.GroupOf(r.Held[0]); known {
		t.Errorf("the address is one of %s", g.Name)
	}
}

func TestUnusableGrantIsNotUsedLater(t *testing.T) {
	b, r := withGrant(t, "198.51.100.11") // an address of the pool of default
	b.drop(r)
	back := b.returns("198.51.100.11")
	b.gets(r, 0)
	b.released(back, nil)
	claims := b.send(webV4)
	b.drop(r)
	b.answer(claims, granted("198.51.100.11"))
	b.gets(r, 0)
}

func TestSharersOfAClaimCauseNoSendLoop(t *testing.T) {
	b := newBacked(t, false)
	b.Claims.SetCluster("test")
	any, one := web("4", of("box"), sharing("key")), web("4", of("box"), sharing("key"), asking("203.0.113.9"), named("api"))
	b.choose(any)
	b.choose(one)
	claims := b.send("test/default/shared:key/box/v4")
	if claims[0].Address.String() != "203.0.113.9" {
		t.Errorf("asks for %s", claims[0].Address)
	}
	b.answer(claims, failed(ipam.KindTaken))
	b.choose(any)
	b.choose(one)
	b.send()
}

func TestClaimIsSentOncePerCall(t *testing.T) {
	b := newBacked(t, false)
	r := web("4", of("box"), asking("203.0.113.9"))
	b.choose(r)
	b.answer(b.send(webV4), failed(ipam.KindTaken))
	b.choose(web("4", of("box"), asking("203.0.113.8"))) // the claim is in the queue and must be sent
	b.drop(r)
	b.choose(r)
	b.send(webV4)
}

func TestGrantIsNotReturnedDuringRegistration(t *testing.T) {
	b, r := adopted(t)
	b.register()
	claims := b.send(webV4)
	b.drop(r)
	b.returns()
	b.answer(claims, granted("203.0.113.7"))
	b.released(b.returns("203.0.113.7"), nil)
	// The next grant can be registered, too.
	r = web("4", of("box"))
	b.choose(r)
	b.answer(b.send(webV4), granted("203.0.113.8"))
	b.register()
	b.send(webV4)
}

// A worker tries a refused claim again only while a Service waits for it. Here the claim stays meanwhile, because
// the backend granted it an address of another Service.
func TestARefusedClaimIsSentWhenAServiceWaitsAgain(t *testing.T) {
	b := newBacked(t, false)
	b.Store.Show(netip.MustParseAddr("203.0.113.7"), "default/older")
	r := web("4", of("box"))
	b.choose(r)
	b.answer(b.send(webV4), granted("203.0.113.7"))
	b.Claims.Want(ipam.Owner(r.Key()), nil)
	b.choose(r)
	b.send(webV4)
}
