package announce

import (
	"net/netip"
	"time"
)

// Probing is how to ask a segment who has an address: Count times, each
// Interval after the one before, and then to listen for Wait more. RFC 5227 has
// 3 times, 1 to 2 s and 2 s, and RFC 4862 has once and 1 s, for networks of any
// kind; a wired segment answers within milliseconds.
type Probing struct {
	Count          int
	Interval, Wait time.Duration
}

// Heard is something that another station said on the wire about an address
// that is here.
type Heard struct {
	Link string
	Addr netip.Addr
	// MAC is who says that it has the address, or wants it.
	MAC [6]byte
	// Probe says that it only asks whether somebody has the address, as it
	// should before it takes one. It gets its answer from the kernel.
	Probe bool
}
