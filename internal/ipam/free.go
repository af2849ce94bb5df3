package ipam

import (
	"cmp"
	"iter"
	"math/big"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
)

// index is the addresses of one family, in order.
type index struct {
	// taken are the addresses that are held or blocked.
	taken set
	// blocked are the addresses that are blocked and not held.
	blocked set
	// shared are the addresses on which a key is in effect. Each is listed twice:
	// with the namespace of its first owner, and without a namespace.
	shared map[sharing]*set
}

// sharing is a key that is in effect on an address, with the namespace of the first owner
// there.
type sharing struct{ key, namespace string }

// use is what the index knows of an address. The zero value means that no owner holds the
// address.
type use struct {
	held bool
	sharing
}

// reindex updates the index after the use of a has changed.
func (s *Store) reindex(a netip.Addr, was, is use) {
	if was == is {
		return
	}
	x := &s.v6
	if a.Is4() {
		x = &s.v4
	}
	_, blocked := s.blocked[a]
	x.change(a, was, is, blocked)
}

// change updates x after the use of a has changed. blocked says whether a is blocked.
func (x *index) change(a netip.Addr, was, is use, blocked bool) {
	n := addr.NumberOf(a)
	switch {
	case was.held == is.held:
	case is.held && blocked:
		x.blocked.remove(n)
	case is.held:
		x.taken.add(n)
	case blocked:
		x.blocked.add(n)
	default:
		x.taken.remove(n)
	}
	if was.sharing == is.sharing {
		return
	}
	if was.key != "" {
		x.unlist(sharing{key: was.key}, n)
		x.unlist(was.sharing, n)
	}
	if is.key != "" {
		x.list(sharing{key: is.key}, n)
		x.list(is.sharing, n)
	}
}

// list adds n to the addresses with this sharing.
func (x *index) list(how sharing, n addr.Number) {
	members := x.shared[how]
	if members == nil {
		members = &set{}
		x.shared[how] = members
	}
	members.add(n)
}

// unlist undoes list.
func (x *index) unlist(how sharing, n addr.Number) {
	members := x.shared[how]
	if members.remove(n); members.root == nil {
		delete(x.shared, how)
	}
}

// index returns the index of a family.
func (s *Store) index(f addr.Family) *index {
	if f == addr.V4 {
		return &s.v4
	}
	return &s.v6
}

// Next returns the lowest free address of p: p hands it out, it is not blocked, and no
// owner holds it. A draining pool has none.
func (s *Store) Next(p Pool) (netip.Addr, bool) {
	if p.Draining {
		return netip.Addr{}, false
	}
	taken := &s.index(p.Family()).taken
	for r := range s.open(p) {
		if free, ok := taken.gap(addr.NumberOf(r.From), addr.NumberOf(r.To)); ok {
			return free.In(p.Family()), true
		}
	}
	return netip.Addr{}, false
}

// InUse returns how many addresses of p are held. An address that owners share counts
// once.
func (s *Store) InUse(p Pool) int64 {
	x, first, last := s.index(p.Family()), addr.NumberOf(p.Range.From), addr.NumberOf(p.Range.To)
	return int64(x.taken.between(first, last) - x.blocked.between(first, last))
}

// Available returns how many addresses of p are free, in the sense of Next.
func (s *Store) Available(p Pool) *big.Int {
	free := new(big.Int)
	if p.Draining {
		return free
	}
	taken := &s.index(p.Family()).taken
	for r := range s.open(p) {
		size, n := r.Size(), taken.between(addr.NumberOf(r.From), addr.NumberOf(r.To))
		free.Add(free, size.Sub(size, big.NewInt(int64(n))))
	}
	return free
}

// open returns the addresses that p hands out and that are in no blocked network,
// ascending.
func (s *Store) open(p Pool) iter.Seq[addr.Range] {
	if len(s.networks.in(p.Range)) == 0 {
		return p.segments()
	}
	return func(yield func(addr.Range) bool) {
		for r := range p.segments() {
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
	blocked := make(map[netip.Addr]string, len(reasons))
	for a, reason := range reasons {
		if a = plain(a); a.IsValid() {
			blocked[a] = reason
		}
	}
	for a := range s.blocked {
		if _, still := blocked[a]; !still {
			s.block(a, false)
		}
	}
	for a := range blocked {
		if _, already := s.blocked[a]; !already {
			s.block(a, true)
		}
	}
	s.blocked = blocked
}

// block adds a to the blocked addresses of the index, or removes it, unless an owner holds
// a.
func (s *Store) block(a netip.Addr, blocked bool) {
	if _, held := s.holdings[a]; held {
		return
	}
	x, n := s.index(addr.FamilyOf(a)), addr.NumberOf(a)
	if blocked {
		x.taken.add(n)
		x.blocked.add(n)
	} else {
		x.taken.remove(n)
		x.blocked.remove(n)
	}
}

// Network is a range of addresses that are not handed out.
type Network struct {
	addr.Range
	// What names the network, such as "the Service network 10.96.0.0/16".
	What string
}

// networks are sorted by their first address. whole has the same addresses as ranges that
// neither overlap nor touch.
type networks struct {
	all   []Network
	whole []addr.Range
}

// SetNetworks replaces the networks whose addresses are not handed out. An owner that holds
// such an address keeps it.
func (s *Store) SetNetworks(all []Network) {
	s.networks = networks{all: slices.Clone(all)}
	slices.SortFunc(s.networks.all, func(a, b Network) int {
		return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To), cmp.Compare(a.What, b.What))
	})
	ranges := make([]addr.Range, len(all))
	for i, n := range all {
		ranges[i] = n.Range
	}
	s.networks.whole = addr.Merge(ranges)
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
func (n networks) of(a netip.Addr) (Network, bool) {
	if len(n.in(addr.Range{From: a, To: a})) == 0 {
		return Network{}, false
	}
	i := slices.IndexFunc(n.all, func(n Network) bool { return n.Contains(a) })
	return n.all[i], true
}
