package allocator

import (
	"net/netip"
	"slices"
	"testing"

	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/service"
)

var backedBox = ipam.Group{Name: "box", Announce: ipam.AnnounceRemote, Backend: "NetBox"}

func TestAnnotationAloneGrantsNoBackendAddress(t *testing.T) {
	s := newFixture(t, backedBox)
	d, err := s.decide(s.wants("web", func(r *service.Request) {
		r.Group, r.From = "box", "box"
		r.Vouched = []netip.Addr{netip.MustParseAddr("203.0.113.7")}
	}))
	if err != nil || len(d.Result.Addresses) > 0 {
		t.Errorf("the Service gets %s, %v, although no backend granted it", d.Result.Addresses, err)
	}
	if claims := s.Wanted("box", 9); len(claims) != 1 {
		t.Errorf("claims %v", claims)
	}
}

func TestOldStatusGrantsNoBackendAddress(t *testing.T) {
	s := newFixture(t, backedBox)
	r := s.wants("web", func(r *service.Request) { r.Group = "box" })
	if _, err := s.decide(r); err != nil {
		t.Fatal(err)
	}
	r.From, r.Held = "box", []netip.Addr{netip.MustParseAddr("203.0.113.7")}
	r.Vouched = r.Held
	if d, err := s.decide(r); err != nil || len(d.Result.Addresses) > 0 {
		t.Errorf("the Service gets %s, %v, although no backend granted it", d.Result.Addresses, err)
	}
}

func TestGrantedAddressIsSharedAtOnce(t *testing.T) {
	s := newFixture(t, backedBox)
	share := func(r *service.Request) { r.SharingKey = "key" }
	asks := s.wants("asks", share, func(r *service.Request) {
		r.Asked = []netip.Addr{netip.MustParseAddr("203.0.113.7")}
		r.Ports[0].Number = 443
	})
	for _, r := range []service.Request{asks, s.wants("web", share, func(r *service.Request) { r.Group = "box" })} {
		if _, err := s.decide(r); err != nil {
			t.Fatal(err)
		}
	}
	claims := s.Wanted("box", 9)
	s.Answered("box", claims, []ipam.Answer{{Grant: ipam.Grant{Address: asks.Asked[0]}}})
	if has := s.cluster.Store.Held("default/asks"); !slices.Equal(has, asks.Asked) {
		t.Errorf("the Service that asks for the address has %s", has)
	}
}

func TestServiceIsQueuedWhenItsGroupBecomesKnown(t *testing.T) {
	s := newFixture(t, backedBox)
	r := s.wants("web", func(r *service.Request) {
		r.Held = []netip.Addr{netip.MustParseAddr("203.0.113.7")} // nothing tells its group
		r.Vouched, r.Asked, r.Reevaluate = r.Held, r.Held, true
	})
	if d, err := s.decide(r); err != nil || d.Result.Reason != ipam.ReasonOutside {
		t.Fatalf("before the sweep: %s, %v", d.Result.Reason, err)
	}
	s.Orphans("box", []ipam.Grant{{Key: "test/default/web/v4", Address: r.Held[0]}})
	if !s.woken[owner(r)] {
		t.Error("the Service is not queued")
	}
	if d, err := s.decide(r); err != nil || d.Result.Reason != ipam.ReasonAllocated || d.Result.From != "box" {
		t.Errorf("after the sweep: %s from %q, %v", d.Result.Reason, d.Result.From, err)
	}
}

func TestAddressStaysWithoutABackendReplacement(t *testing.T) {
	s := newFixture(t, backedBox)
	r := s.wants("web", func(r *service.Request) {
		r.Held = []netip.Addr{netip.MustParseAddr("203.0.113.7")} // nothing tells its group
		r.Vouched, r.Group, r.Reevaluate = r.Held, "box", true
	})
	if _, err := s.decide(r); err != nil {
		t.Fatal(err)
	}
	claims := s.Wanted("box", 9)
	if len(claims) != 1 || claims[0].Address.IsValid() {
		t.Fatalf("claims %v, want any address", claims)
	}
	s.Answered("box", claims, []ipam.Answer{{Err: &ipam.Error{Kind: ipam.KindExhausted, Message: "nothing is free"}}})
	if d, err := s.decide(r); err != nil || !slices.Equal(d.Result.Addresses, r.Held) || d.Result.Reevaluated {
		t.Errorf("chose %s, re-evaluated %v, %v", d.Result.Addresses, d.Result.Reevaluated, err)
	}
}

func TestHolderStaysWhileAServiceMayUseIt(t *testing.T) {
	key := func(r *service.Request) { r.SharingKey = "key" }
	has := func(a string) func(*service.Request) {
		return func(r *service.Request) {
			r.From, r.Held = "box", []netip.Addr{netip.MustParseAddr(a)}
			r.Vouched = r.Held
		}
	}
	tests := map[string]struct {
		goes, stays func(*service.Request)
		want        int
	}{
		"it had one address":                           {goes: has("203.0.113.7"), want: 1},
		"its sharing key was that of another address":  {goes: key, stays: key, want: 0},
		"it shared its address, and no Service has it": {goes: key, want: 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, backedBox)
			s.cluster.Claims.SetCluster("test")
			first := s.wants("first", has("203.0.113.7"), test.goes)
			if _, err := s.decide(first); err != nil {
				t.Fatal(err)
			}
			if test.stays != nil {
				if _, err := s.decide(s.wants("second", has("203.0.113.8"), test.stays)); err != nil {
					t.Fatal(err)
				}
			}
			s.forget(owner(first))
			s.Released("box", s.Releasing("box", 9), []error{nil})
			if keys := s.Departed("box", 9); len(keys) != test.want {
				t.Errorf("dismisses %q, want %d", keys, test.want)
			}
		})
	}
}

func TestClaimIsRetriedAfterASurplusIsReleased(t *testing.T) {
	s := newFixture(t, backedBox)
	if _, err := s.decide(s.wants("web", func(r *service.Request) { r.Group = "box" })); err != nil {
		t.Fatal(err)
	}
	s.Answered("box", s.Wanted("box", 9), []ipam.Answer{{Err: &ipam.Error{Kind: ipam.KindExhausted, Message: "nothing is free"}}})
	s.Freed("other")
	if claims := s.Wanted("box", 9); len(claims) != 0 {
		t.Errorf("claims %v, although no address became free", claims)
	}
	s.Freed("box")
	if claims := s.Wanted("box", 9); len(claims) != 1 {
		t.Errorf("claims %v, although the backend has a free address", claims)
	}
}

func TestClaimIsRetriedAfterADismissal(t *testing.T) {
	s := newFixture(t, backedBox)
	if _, err := s.decide(s.wants("web", func(r *service.Request) { r.Group = "box" })); err != nil {
		t.Fatal(err)
	}
	s.Answered("box", s.Wanted("box", 9), []ipam.Answer{{Err: &ipam.Error{Kind: ipam.KindExhausted, Message: "nothing is free"}}})
	gone := []string{"test/default/gone/v4"}
	s.Dismissed("box", gone, []error{&ipam.Error{Kind: ipam.KindUnavailable, Message: "it is away"}})
	if claims := s.Wanted("box", 9); len(claims) != 0 {
		t.Errorf("claims %v, although no address became free", claims)
	}
	s.Dismissed("box", gone, []error{nil})
	if claims := s.Wanted("box", 9); len(claims) != 1 {
		t.Errorf("claims %v, although the backend may have a free address", claims)
	}
}
