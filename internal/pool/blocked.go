package pool

import (
	"net/netip"

	"purelb.io/purelb/internal/addr"
)

// shelf is the addresses of one family, in order.
type shelf struct {
	// taken addresses are held or blocked, or both.
	taken set
	// barred addresses are blocked and not held.
	barred set
}

// SetBlocked replaces the addresses that are never handed out, each with the
// reason. Whoever holds one of them keeps it.
func (b *Book) SetBlocked(reasons map[netip.Addr]string) {
	blocked := make(map[netip.Addr]string, len(reasons))
	for a, reason := range reasons {
		if a = plain(a); a.IsValid() {
			blocked[a] = reason
		}
	}
	for a := range b.blocked {
		if _, still := blocked[a]; !still && !b.isHeld(a) {
			b.shelfOf(a).unbar(addr.NumberOf(a))
		}
	}
	for a := range blocked {
		if _, already := b.blocked[a]; !already && !b.isHeld(a) {
			b.shelfOf(a).bar(addr.NumberOf(a))
		}
	}
	b.blocked = blocked
}

// Blocked returns why a is never handed out; ok is false when it may be.
func (b *Book) Blocked(a netip.Addr) (reason string, ok bool) {
	reason, ok = b.blocked[plain(a)]
	return reason, ok
}

// bar blocks n, which is neither held nor blocked.
func (s *shelf) bar(n addr.Number) {
	s.taken.add(n)
	s.barred.add(n)
}

// unbar undoes bar.
func (s *shelf) unbar(n addr.Number) {
	s.taken.remove(n)
	s.barred.remove(n)
}
