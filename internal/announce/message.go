package announce

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// MessageKind is what a Message is about.
type MessageKind byte

const (
	// Take asks the receiver to take addresses that the sender still has.
	Take MessageKind = 1
	// Taken answers that the sender has them now.
	Taken MessageKind = 2
	// Ask asks whether the receiver has addresses for which its node answered.
	Ask MessageKind = 3
	// Have answers that the sender has the addresses or is about to take them. HaveNot answers
	// that it does neither.
	Have    MessageKind = 4
	HaveNot MessageKind = 5
	// Listen asks whether a machine on the receiver's segments answers for addresses that have just
	// come to the sender. Unheard answers for which of them no machine does, although others answer.
	Listen  MessageKind = 6
	Unheard MessageKind = 7
)

// numbered reports whether messages of kind k have the number of a question.
func (k MessageKind) numbered() bool { return k == Ask || k == Have || k == HaveNot }

// MaxAddresses limits the addresses in a Message.
const MaxAddresses = 1024

// messageVersion is the first byte of a message. An agent ignores a message of another
// version or of an unknown kind: a handover then ends by its deadline, and an Ask without an
// answer means that the address counts as held.
const messageVersion = 1

// Message is a message between two agents.
type Message struct {
	Kind MessageKind
	// Number is the number of the question. Its answers repeat it, so that a late answer does
	// not count for the next question. Take and Taken have no number.
	Number    uint64
	Addresses []netip.Addr
}

// Encode returns messages of the given kind for all addresses. See Message.Encode.
func Encode(kind MessageKind, addresses []netip.Addr) [][]byte {
	var all [][]byte
	for len(addresses) > 0 {
		n := min(len(addresses), MaxAddresses)
		all = append(all, Message{Kind: kind, Addresses: addresses[:n]}.Encode())
		addresses = addresses[n:]
	}
	return all
}

// Encode returns the bytes of m, which has MaxAddresses at most: the version, the kind, the
// number in eight bytes if the kind has one, and for each address its length and its bytes.
func (m Message) Encode() []byte {
	buf := []byte{messageVersion, byte(m.Kind)}
	if m.Kind.numbered() {
		buf = binary.BigEndian.AppendUint64(buf, m.Number)
	}
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
	switch {
	case m.Kind < Take || m.Kind > Unheard:
		return Message{}, fmt.Errorf("read message: unknown kind %d", m.Kind)
	case m.Kind.numbered() && len(rest) < 8:
		return Message{}, fmt.Errorf("read message: the number of the question has %d of 8 bytes", len(rest))
	case m.Kind.numbered():
		m.Number, rest = binary.BigEndian.Uint64(rest), rest[8:]
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
