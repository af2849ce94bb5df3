package bfd

import "net/netip"

// network is what the engine needs of the operating system.
type network interface {
	// listen opens the port on which the sessions of one family and kind receive. It calls
	// ready when packets may have arrived since the last take.
	listen(v6, multihop bool, ready func()) (ear, error)
	// dial opens the socket from which one session sends.
	dial(s Session) (mouth, error)
}

// ear is the receiving socket of one family and kind.
type ear interface {
	// take passes the waiting packets to hear, and reports whether more are waiting. It
	// does not block.
	take(hear func(arrival)) (more bool)
	Close() error
}

// mouth is the sending socket of one session. Sending does not block.
type mouth interface {
	send(packet []byte) error
	Close() error
}

// arrival is a received packet. The packet is only valid until hear returns.
type arrival struct {
	// from and to are its addresses. link is the name of the interface.
	from, to netip.Addr
	link     string
	// hops is its TTL or hop limit.
	hops   int
	packet []byte
	// multihop means that it came to the port of multihop sessions.
	multihop bool
}

// key returns the key of the session between these addresses.
func (a arrival) key() netip.Addr {
	from := a.from.Unmap()
	if from.Is6() && from.IsLinkLocalUnicast() {
		return from.WithZone(a.link)
	}
	return from.WithZone("")
}
