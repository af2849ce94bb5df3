package announce

import (
	"fmt"
	"net/netip"
	"slices"
)

// MessageKind is what a Message is about.
type MessageKind byte

const (
	// Take asks the receiver to take addresses that the sender still has.
	Take MessageKind = 1
	// Taken answers that the sender has them now.
	Taken MessageKind = 2
	// Listen asks whether a machine on the receiver's segments answers for addresses that have just
	// come to the sender. NotHeard answers for which of them no machine does, although others answer.
	Listen   MessageKind = 6
	NotHeard MessageKind = 7
)

// MaxAddresses limits the addresses in a Message.
const MaxAddresses = 1024

// messageVersion is the first byte of a message. An agent ignores a message of another
// version or of an unknown kind: a handover then ends by its deadline. Agents of earlier versions
// also ask which addresses a node has (kinds 3 to 5). Without an answer they take the address for held.
const messageVersion = 1

// Message is a message between two agents.
type Message struct {
	Kind      MessageKind
	Addresses []netip.Addr
}

// Encode returns messages of the given kind for all addresses. See Message.Encode.
func Encode(kind MessageKind, addresses []netip.Addr) [][]byte {
	var all [][]byte
	for some := range slices.Chunk(addresses, MaxAddresses) {
		all = append(all, Message{Kind: kind, Addresses: some}.Encode())
	}
	return all
}

// Encode returns the bytes of m, which has MaxAddresses at most: the version, the kind,
// and for each address its length and its bytes.
func (m Message) Encode() []byte {
	buf := []byte{messageVersion, byte(m.Kind)}
	for _, a := range m.Addresses {
		bytes := a.Unmap().AsSlice()
		buf = append(append(buf, byte(len(bytes))), bytes...)
	}
	return buf
}

// Decode reads a complete message, or returns an error.
func Decode(message []byte) (Message, error) {
	if len(message) < 2 || message[0] != messageVersion {
		return Message{}, fmt.Errorf("read message: it does not have version %d", messageVersion)
	}
	m, rest := Message{Kind: MessageKind(message[1])}, message[2:]
	if m.Kind != Take && m.Kind != Taken && m.Kind != Listen && m.Kind != NotHeard {
		return Message{}, fmt.Errorf("read message: unknown kind %d", m.Kind)
	}
	for len(rest) > 0 {
		n := int(rest[0])
		if n >= len(rest) || len(m.Addresses) == MaxAddresses {
			return Message{}, fmt.Errorf("read message: address %d is cut off, or one too many", len(m.Addresses))
		}
		a, ok := netip.AddrFromSlice(rest[1 : 1+n])
		if !ok || a.Is4In6() {
			return Message{}, fmt.Errorf("read message: address %d has %d bytes, or is written in two ways", len(m.Addresses), n)
		}
		m.Addresses, rest = append(m.Addresses, a), rest[1+n:]
	}
	return m, nil
}
