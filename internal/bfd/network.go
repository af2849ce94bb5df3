package bfd

import "net/netip"

// network is what the engine needs of the world.
type network interface {
	// listen opens the port that the sessions of one family receive at. It
	// calls ready whenever packets may have come since the last take.
	listen(v6 bool, ready func()) (ear, error)
	// dial opens what one session sends from.
	dial(s Session) (mouth, error)
}

// ear is where packets come in.
type ear interface {
	// take hands over the packets that are there, and says whether it has left
	// some. It waits for none.
	take(hear func(arrival)) (more bool)
	Close() error
}

// mouth is where the packets of one session go out. Sending does not wait.
type mouth interface {
	send(packet []byte) error
	Close() error
}

// arrival is a packet as it came. What it points to is only valid for now.
type arrival struct {
	// from and to are its addresses, link the name of the interface.
	from, to netip.Addr
	link     string
	// hops is its TTL or hop limit.
	hops   int
	packet []byte
}

// key is that of the session that it would be for.
func (a arrival) key() netip.Addr {
	from := a.from.Unmap()
	if from.Is6() && from.IsLinkLocalUnicast() {
		return from.WithZone(a.link)
	}
	return from.WithZone("")
}
