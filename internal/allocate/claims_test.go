package allocate

import (
	"net/netip"
	"slices"
	"testing"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// takeAll takes the work of all holders of a group.
func takeAll(l *allocations, group string) (claims []ipam.Claim, back []ipam.Grant, gone []string) {
	for _, h := range l.Pending(group) {
		w := l.Work(h)
		claims = append(claims, w.Claims...)
		for _, g := range w.Release {
			if g.Address.IsValid() {
				back = append(back, g)
			} else {
				gone = append(gone, g.Key)
			}
		}
	}
	return claims, back, gone
}

// takeClaims takes the claims of a group that must be sent.
func takeClaims(l *allocations, group string) []ipam.Claim {
	claims, _, _ := takeAll(l, group)
	return claims
}

// answerEach answers claims, those of one holder together.
func answerEach(l *allocations, claims []ipam.Claim, answers ...ipam.Answer) {
	for len(claims) > 0 {
		h, n := claims[0].Holder(), 1
		for n < len(claims) && claims[n].Holder() == h {
			n++
		}
		l.Answered(h, claims[:n], answers[:n])
		claims, answers = claims[n:], answers[n:]
	}
}

func refusal(kind ipam.Kind, message string) ipam.Answer {
	return ipam.Answer{Err: &ipam.Error{Kind: kind, Message: message}}
}

var backedBox = groups.Group{Name: "box", Announce: groups.AnnounceRemote, Backend: "NetBox"}

// Neither the annotation nor the status of a Service proves that a backend granted an address.
func TestOnlyABackendGrantsItsAddresses(t *testing.T) {
	s := newFixture(t, backedBox)
	r := s.wants("web", inGroup("box"))
	r.From, r.Vouched = "box", []netip.Addr{netip.MustParseAddr("203.0.113.7")}
	s.gets(r, "")
	r.Held = r.Vouched
	s.gets(r, "")
	if claims := takeClaims(s.allocations, "box"); len(claims) != 1 {
		t.Errorf("claims %v", claims)
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
	s.Compared("box", []ipam.Grant{{Key: "test/default/web/v4", Address: r.Held[0]}}, nil)
	s.wakes(owner(r))
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
	s.gets(r, "203.0.113.7")
	claims := takeClaims(s.allocations, "box")
	if len(claims) != 1 || claims[0].Address.IsValid() {
		t.Fatalf("claims %v, want any address", claims)
	}
	answerEach(s.allocations, claims, refusal(ipam.KindExhausted, "nothing is free"))
	if d, err := s.decide(r); err != nil || !slices.Equal(d.Result.Addresses, r.Held) || d.Result.Reevaluated {
		t.Errorf("chose %s, re-evaluated %v, %v", d.Result.Addresses, d.Result.Reevaluated, err)
	}
}

func TestRefusedClaimIsRetriedWhenAnAddressIsFree(t *testing.T) {
	s := newFixture(t, backedBox)
	s.cluster.Claims.SetCluster("test")
	s.gets(s.wants("web", inGroup("box")), "")
	answerEach(s.allocations, takeClaims(s.allocations, "box"), refusal(ipam.KindExhausted, "nothing is free"))
	var due []ipam.Holder
	s.poke = func(holders ...ipam.Holder) { due = append(due, holders...) }

	gone := ipam.Holder{Group: "box", Name: "default/gone"}
	s.cluster.Claims.Depart(gone, "test/default/gone/box/v4")
	all := s.Work(gone).Release
	if s.Released(gone, all, []error{refusal(ipam.KindUnavailable, "it is away").Err}); len(due) > 0 {
		t.Errorf("%v are due, although no address became free", due)
	}
	if s.Released(gone, all, []error{nil}); len(due) == 0 || due[0].Name != "default/web" {
		t.Errorf("%v are due, although the backend has a free address", due)
	}
}

// The Service is of another type for so short a time that the backend has not released its address.
func TestServiceThatComesBackDepartsAgain(t *testing.T) {
	s := newFixture(t, backedBox)
	s.cluster.Claims.SetCluster("test")
	r := s.wants("web", inGroup("box"))
	for range 2 {
		s.gets(r, "")
		answerEach(s.allocations, takeClaims(s.allocations, "box"), ipam.Answer{Grant: ipam.Grant{Address: netip.MustParseAddr("203.0.113.7")}})
		s.gets(r, "203.0.113.7")
		if waits := s.depart(r); !slices.Equal(waits, []string{"box"}) {
			t.Errorf("the departure waits for %q", waits)
		}
		_, back, _ := takeAll(s.allocations, "box")
		if len(back) != 1 {
			t.Fatalf("gives back %v, want one address", back)
		}
		s.Released(ipam.Holder{Group: "box", Name: "default/web"}, back, []error{nil})
	}
	if _, _, gone := takeAll(s.allocations, "box"); len(gone) != 1 {
		t.Errorf("dismisses %q", gone)
	}
	s.Released(ipam.Holder{Group: "box", Name: "default/web"}, []ipam.Grant{{Key: "test/default/web/box/v4"}}, []error{nil})
	if waits := s.depart(r); len(waits) > 0 {
		t.Errorf("the departure waits for %q", waits)
	}
}

// Another controller gives a Service the address that a backend has for a Service that is gone. Only after that
// the address is known to be of a group.
func TestAServiceIsAdoptedAtAnAddressThatABackendWasToGetBack(t *testing.T) {
	s := newFixture(t, backedBox)
	web := s.wants("web", inGroup("box"))
	s.gets(web, "")
	answerEach(s.allocations, takeClaims(s.allocations, "box"), ipam.Answer{Grant: ipam.Grant{Key: "test/default/web/v4", Address: netip.MustParseAddr("203.0.113.7")}})
	s.gets(web, "203.0.113.7")
	s.forget(owner(web))
	theirs := s.wants("theirs", func(r *service.Request) {
		r.Held = []netip.Addr{netip.MustParseAddr("203.0.113.7")}
		r.Owner, r.Strange, r.Adopt = service.Anothers, r.Held, true
	})
	if theirs = s.judged(theirs); theirs.NotAdopted != ipam.ReasonOutside {
		t.Fatalf("before the store knows the address, the Service is %s, %q", theirs.Owner, theirs.NotAdopted)
	}
	clear(s.woken)
	s.note(theirs)
	s.wakes(owner(theirs))
	if r := s.judged(theirs); r.Owner != service.Adopted {
		t.Errorf("after that, the Service is %s, %q", r.Owner, r.NotAdopted)
	}
}
