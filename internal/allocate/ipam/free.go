package ipam

import (
	"cmp"
	"iter"
	"math/big"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
)

// span is what the Store knows of the addresses of a range: how many of them are in use. The Store
// makes it at the first question about the range, and updates it with each change.
type span struct {
	// held and taken count the addresses that are held, and those that are held, blocked or listed.
	held, taken int
	// All addresses of the range below low are taken or vacated, except for gaps. gaps are sorted,
	// and some of them may be taken or vacated again.
	low  netip.Addr
	gaps []netip.Addr
}

// span returns what the Store knows of r. It counts the addresses once.
func (s *Store) span(r addr.Range) *span {
	if known := s.spans[r]; known != nil {
		return known
	}
	known := &span{low: r.From}
	for a := range s.holdings {
		if r.Contains(a) {
			known.held++
			known.taken++
		}
	}
	take := func(a netip.Addr) {
		if _, held := s.holdings[a]; !held && r.Contains(a) {
			known.taken++
		}
	}
	for a := range s.blocked {
		take(a)
	}
	for a := range s.listers {
		if _, blocked := s.blocked[a]; !blocked {
			take(a)
		}
	}
	s.spans[r] = known
	return known
}

// count updates the spans after a has become one of the held addresses, or one of the others: n is 1 or -1.
func (s *Store) count(a netip.Addr, n int) {
	for r, known := range s.spans {
		if !r.Contains(a) {
			continue
		}
		if known.held += n; !s.isWithheld(a) {
			known.taken += n
		}
	}
	if n < 0 {
		s.reopen(a)
	}
}

// isWithheld reports whether a is blocked or listed.
func (s *Store) isWithheld(a netip.Addr) bool {
	_, blocked := s.blocked[a]
	_, listed := s.listers[a]
	return blocked || listed
}

// reopen notes that a may be free and not vacated now.
func (s *Store) reopen(a netip.Addr) {
	for r, known := range s.spans {
		if at, already := slices.BinarySearchFunc(known.gaps, a, netip.Addr.Compare); !already && r.Contains(a) && a.Less(known.low) {
			known.gaps = slices.Insert(known.gaps, at, a)
		}
	}
}

// passed reports whether a is held, blocked, listed or vacated.
func (s *Store) passed(a netip.Addr) bool {
	_, held := s.holdings[a]
	_, vacated := s.vacated[a]
	return held || vacated || s.isWithheld(a)
}

// lowest returns the lowest address of r that is neither taken nor vacated, if there is one.
func (s *Store) lowest(r addr.Range) (netip.Addr, bool) {
	known := s.span(r)
	for len(known.gaps) > 0 {
		if a := known.gaps[0]; !s.passed(a) {
			return a, true
		}
		known.gaps = known.gaps[1:]
	}
	for s.passed(known.low) {
		if known.low == r.To {
			return netip.Addr{}, false
		}
		known.low = known.low.Next()
	}
	return known.low, true
}

// Next returns the lowest free address of p: p hands it out, it is neither blocked nor listed, and no
// owner holds it. Vacated addresses are last, in the order of time. A draining pool has none.
func (s *Store) Next(p groups.Pool) (netip.Addr, bool) {
	if p.Draining {
		return netip.Addr{}, false
	}
	for r := range s.open(p) {
		if free, ok := s.lowest(r); ok {
			return free, true
		}
	}
	return s.longestVacated(p)
}

// InUse returns how many addresses of p are held. An address that owners share counts
// once.
func (s *Store) InUse(p groups.Pool) int64 { return int64(s.span(p.Range).held) }

// Available returns how many addresses of p are free, in the sense of Next.
func (s *Store) Available(p groups.Pool) *big.Int {
	free := new(big.Int)
	if p.Draining {
		return free
	}
	for r := range s.open(p) {
		size := r.Size()
		free.Add(free, size.Sub(size, big.NewInt(int64(s.span(r).taken))))
	}
	return free
}

// open returns the addresses that p hands out and that are in no blocked network,
// ascending.
func (s *Store) open(p groups.Pool) iter.Seq[addr.Range] {
	if len(s.networks.in(p.Range)) == 0 {
		return p.Segments()
	}
	return func(yield func(addr.Range) bool) {
		for r := range p.Segments() {
			for part := range r.Without(s.networks.in(r)) {
				if !yield(part) {
					return
				}
			}
		}
	}
}

// Blocked returns the reason why the Store does not hand out a, if there is one.
func (s *Store) Blocked(a netip.Addr) (reason string, ok bool) {
	a = plain(a)
	if reason, ok = s.blocked[a]; ok {
		return reason, true
	}
	if n, in := s.networks.of(a); in {
		return "an address of " + n.What, true
	}
	return "", false
}

// SetBlocked replaces the single addresses that are not handed out, each with the
// reason. An owner that holds such an address keeps it.
func (s *Store) SetBlocked(reasons map[netip.Addr]string) {
	s.blocked = make(map[netip.Addr]string, len(reasons))
	for a, reason := range reasons {
		if a = plain(a); a.IsValid() {
			s.blocked[a] = reason
		}
	}
	clear(s.spans)
}

// networks are sorted by their first address. whole has the same addresses as ranges that
// neither overlap nor touch.
type networks struct {
	all   []groups.Network
	whole []addr.Range
}

// SetNetworks replaces the networks whose addresses are not handed out. An owner that holds
// such an address keeps it.
func (s *Store) SetNetworks(all []groups.Network) {
	s.networks = networks{all: slices.Clone(all)}
	slices.SortFunc(s.networks.all, func(a, b groups.Network) int {
		return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To), cmp.Compare(a.What, b.What))
	})
	ranges := make([]addr.Range, len(all))
	for i, n := range all {
		ranges[i] = n.Range
	}
	s.networks.whole = addr.Merge(ranges)
	clear(s.spans)
}

// in returns the parts of r that are in networks, as addr.Range.Without takes them.
func (n networks) in(r addr.Range) []addr.Range {
	first, _ := slices.BinarySearchFunc(n.whole, r.From, func(w addr.Range, a netip.Addr) int { return w.To.Compare(a) })
	last := first
	for last < len(n.whole) && n.whole[last].From.Compare(r.To) <= 0 {
		last++
	}
	return n.whole[first:last]
}

// of returns the first network that a is in, if there is one.
func (n networks) of(a netip.Addr) (groups.Network, bool) {
	if len(n.in(addr.Range{From: a, To: a})) == 0 {
		return groups.Network{}, false
	}
	i := slices.IndexFunc(n.all, func(n groups.Network) bool { return n.Contains(a) })
	return n.all[i], true
}
