package ipam

import (
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/groups"
)

// An address is vacated for a while after a Service gave it up: its families changed, or what it asks
// for. The edit may be a mistake, or a tool may repeat it and take it back. So the Service gets the
// address again before any other one, and other Services get it last. The address is free, though:
// a Service that asks for it gets it.

// vacatedFor is how long an address is vacated.
const vacatedFor = 10 * time.Minute

// vacancy says that an address is vacated.
type vacancy struct {
	addr  netip.Addr
	by    Owner
	until time.Time
}

// Vacate notes that the Service of by gave up addresses at the time now. Addresses that another
// Service still holds are not vacated.
func (s *Store) Vacate(by Owner, addresses []netip.Addr, now time.Time) {
	s.Age(now)
	for _, a := range addresses {
		if _, held := s.holdings[plain(a)]; !held {
			v := vacancy{plain(a), by, now.Add(vacatedFor)}
			s.vacated[v.addr], s.vacancies = v, append(s.vacancies, v)
		}
	}
}

// Age makes addresses that were vacated long before the time now like all other free addresses.
func (s *Store) Age(now time.Time) {
	for len(s.vacancies) > 0 && !now.Before(s.vacancies[0].until) {
		v := s.vacancies[0]
		s.vacancies = s.vacancies[1:]
		if s.vacated[v.addr] == v {
			delete(s.vacated, v.addr)
			s.reopen(v.addr)
		}
	}
}

// vacatedBy returns the vacated addresses that by gave up, the last one first.
func (s *Store) vacatedBy(by Owner) []netip.Addr {
	var all []netip.Addr
	for _, v := range slices.Backward(s.vacancies) {
		if v.by == by && s.vacated[v.addr] == v {
			all = append(all, v.addr)
		}
	}
	return all
}

// longestVacated returns the address of p that was vacated first and that p hands out, if there is
// one.
func (s *Store) longestVacated(p groups.Pool) (netip.Addr, bool) {
	for _, v := range s.vacancies {
		if _, withheld := s.Withheld(v.addr, ""); s.vacated[v.addr] == v && p.HandsOut(v.addr) && !withheld {
			return v.addr, true
		}
	}
	return netip.Addr{}, false
}
