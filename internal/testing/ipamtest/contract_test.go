package ipamtest

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
)

// store is a backend in memory. flaw is the rule that it breaks. "" means none.
type store struct {
	flaw string

	mu    sync.Mutex
	held  map[netip.Addr]string
	loses int
}

func newStore(flaw string) *store { return &store{flaw: flaw, held: map[netip.Addr]string{}} }

func (s *store) Driver(string) Driver { return s }

func (s *store) Addresses(f addr.Family) []netip.Addr {
	first := netip.MustParseAddr(map[addr.Family]string{addr.V4: "192.0.2.1", addr.V6: "2001:db8::1"}[f])
	list := []netip.Addr{first}
	for len(list) < 6 {
		list = append(list, list[len(list)-1].Next())
	}
	return list
}

func (s *store) LoseAnswer() { s.loses++ }

func (s *store) Claim(_ context.Context, claims []ipam.Claim) []ipam.Answer {
	var answers []ipam.Answer
	for _, c := range claims {
		answers = append(answers, s.claim(c))
	}
	return answers
}

func (s *store) claim(c ipam.Claim) ipam.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, kind := s.choose(c)
	if kind != "" {
		return ipam.Answer{Err: &ipam.Error{Kind: kind, Message: "no address for " + c.Key}}
	}
	s.held[a] = c.Key
	if s.loses > 0 {
		s.loses--
		if s.flaw == "undoes work without an answer" {
			return ipam.Answer{Err: &ipam.Error{Kind: ipam.KindUnavailable, Message: "not done"}}
		}
		return ipam.Answer{Err: &ipam.Error{Kind: ipam.KindUnknown, Message: "the answer is lost"}}
	}
	if s.flaw == "answers with another key" {
		c.Key += "?"
	}
	return ipam.Answer{Grant: ipam.Grant{Key: c.Key, Address: a}}
}

// choose returns the address for c, or the kind of the refusal.
func (s *store) choose(c ipam.Claim) (netip.Addr, ipam.Kind) {
	if s.flaw == "ignores the family" {
		c.Family = addr.V4
	}
	list := s.Addresses(c.Family)
	for a, key := range s.held {
		if key == c.Key && s.flaw != "forgets keys" && slices.Contains(list, a) {
			return a, ""
		}
	}
	if c.Address.IsValid() && s.flaw != "ignores names" {
		if !slices.Contains(list, c.Address) && s.flaw != "grants foreign addresses" {
			return netip.Addr{}, ipam.KindInvalid
		}
		list = []netip.Addr{c.Address}
	}
	for _, a := range list {
		if _, held := s.held[a]; !held || s.flaw == "grants held addresses" {
			return a, ""
		}
	}
	switch {
	case s.flaw == "calls a full pool broken":
		return netip.Addr{}, ipam.KindUnavailable
	case c.Address.IsValid():
		return netip.Addr{}, ipam.KindTaken
	}
	return netip.Addr{}, ipam.KindExhausted
}

func (s *store) Release(_ context.Context, grants []ipam.Grant) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := make([]error, len(grants))
	for i, g := range grants {
		holder, held := s.held[g.Address]
		switch {
		case s.flaw == "releases nothing":
		case s.flaw == "requires a released grant to exist" && !held:
			errs[i] = &ipam.Error{Kind: ipam.KindInvalid, Message: "not there"}
		case s.flaw == "releases by address alone" || holder == g.Key:
			delete(s.held, g.Address)
		}
		if s.loses > 0 {
			s.loses--
			errs[i] = &ipam.Error{Kind: ipam.KindUnknown, Message: "the answer is lost"}
		}
	}
	return errs
}

func (s *store) Capacity(context.Context) (ipam.Capacity, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := ipam.Capacity{Backend: "store", Known: true, InUse: map[addr.Family]uint64{}, Size: map[addr.Family]uint64{addr.V4: 6, addr.V6: 6}}
	for a := range s.held {
		c.InUse[addr.FamilyOf(a)]++
	}
	if s.flaw == "counts nothing" {
		c.InUse = nil
	}
	return c, nil
}

func TestAnHonestStoreKeepsTheContract(t *testing.T) {
	Contract(t, func(*testing.T) Backend { return newStore("") })
}

func TestTheContractSeesEachFlaw(t *testing.T) {
	seen := map[string]bool{}
	for _, tt := range []struct{ flaw, broken string }{
		{"forgets keys", "a repeated claim gets the same address"},
		{"forgets keys", "concurrent repetitions of a claim get one address"},
		{"forgets keys", "a claim whose answer was lost is claimed once"},
		{"undoes work without an answer", "a claim whose answer was lost is claimed once"},
		{"answers with another key", "a repeated claim gets the same address"},
		{"ignores the family", "each claim of a call gets its own address of its family"},
		{"ignores names", "a named address is granted"},
		{"ignores names", "a named address that another claim holds is taken"},
		{"grants foreign addresses", "a named address of another network is invalid"},
		{"grants held addresses", "concurrent claims get different addresses"},
		{"grants held addresses", "two clusters have two claims"},
		{"calls a full pool broken", "claims beyond the free addresses are refused"},
		{"releases nothing", "a released address is free"},
		{"requires a released grant to exist", "a grant can be released twice"},
		{"requires a released grant to exist", "a release whose answer was lost is repeated"},
		{"releases by address alone", "a release takes only the address of its own claim"},
		{"counts nothing", "the capacity is counted"},
	} {
		t.Run(tt.flaw+": "+tt.broken, func(t *testing.T) {
			for _, c := range contract {
				if c.name != tt.broken {
					continue
				}
				seen[c.name] = true
				if err := c.check(t.Context(), newStore(tt.flaw)); err == nil {
					t.Error("the contract misses the flaw")
				}
			}
		})
	}
	for _, c := range contract {
		if !seen[c.name] {
			t.Errorf("no flaw breaks %q", c.name)
		}
	}
}
