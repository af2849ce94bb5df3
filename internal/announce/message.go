package announce

import (
	"fmt"
	"net/netip"
)

// MessageKind is what a Message is about.
type MessageKind byte

// The kinds of messages between the agents of a handover.
const (
	// Take asks the receiver to take addresses that the sender still has.
	Take MessageKind = 1
	// Taken answers that the sender has them now.
	Taken MessageKind = 2
)

// MaxAddresses is how many addresses a Message may have.
const MaxAddresses = 1024

// messageVersion is the first byte of a message. Who gets another one than its
// own passes the message over, and the handover ends by its deadline.
const messageVersion = 1

// Message is what agents say to each other.
type Message struct {
	Kind      MessageKind
	Addresses []netip.Addr
}

// Encode returns messages of that kind about all addresses: the version, the kind,
// and for each address how many bytes it has, and the bytes.
func Encode(kind MessageKind, addresses []netip.Addr) [][]byte {
	var all [][]byte
	for len(addresses) > 0 {
		n := min(len(addresses), MaxAddresses)
		m := []byte{messageVersion, byte(kind)}
		for _, a := range addresses[:n] {
			bytes := a.Unmap().AsSlice()
			m = append(append(m, byte(len(bytes))), bytes...)
		}
		all, addresses = append(all, m), addresses[n:]
	}
	return all
}

// Decode reads a message, all of it or none.
func Decode(message []byte) (Message, error) {
	if len(message) < 2 || message[0] != messageVersion {
		return Message{}, fmt.Errorf("read message: no version %d", messageVersion)
	}
	m := Message{Kind: MessageKind(message[1])}
	if m.Kind != Take && m.Kind != Taken {
		return Message{}, fmt.Errorf("read message: unknown kind %d", m.Kind)
	}
	for rest := message[2:]; len(rest) > 0; {
		n := int(rest[0])
		if n >= len(rest) || len(m.Addresses) == MaxAddresses {
			return Message{}, fmt.Errorf("read message: no address %d", len(m.Addresses))
		}
		a, ok := netip.AddrFromSlice(rest[1 : 1+n])
		if !ok || a.Is4In6() {
			return Message{}, fmt.Errorf("read message: address %d has %d bytes, or is written in two ways", len(m.Addresses), n)
		}
		m.Addresses, rest = append(m.Addresses, a), rest[1+n:]
	}
	return m, nil
}
