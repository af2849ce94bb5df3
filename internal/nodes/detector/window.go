package detector

// Window is an anti-replay window (RFC 4303, section 3.4.3). It records which of the last 64
// numbers of a sender were received. Older numbers count as received. The zero value has
// received no number.
type Window struct {
	top  uint64
	mask uint64 // bit i is for top-i
}

// First reports whether number arrives for the first time.
func (w *Window) First(number uint64) bool {
	if number > w.top {
		w.mask = w.mask<<(number-w.top) | 1 // a shift by 64 or more leaves 0
		w.top = number
		return true
	}
	bit := uint64(1) << (w.top - number)
	if bit == 0 || w.mask&bit != 0 {
		return false
	}
	w.mask |= bit
	return true
}
