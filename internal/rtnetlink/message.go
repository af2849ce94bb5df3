package rtnetlink

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// native is the byte order of netlink: the machine's.
var native = binary.NativeEndian

// Request is a message to the kernel: its kind, its flags, and a body of a fixed
// structure and attributes. It is for one goroutine at a time; asking with it
// again is fine.
type Request struct {
	kind, flags uint16
	body        []byte
}

// NewRequest begins a message, of a kind such as unix.RTM_GETLINK, with the
// structure that its kind has, such as a struct ifinfomsg. Flags are those of the
// kind, such as unix.NLM_F_CREATE: what asks for answers is added by who sends it.
func NewRequest(kind, flags uint16, structure []byte) *Request {
	return &Request{kind: kind, flags: flags, body: structure}
}

// Add puts an attribute at the end.
func (r *Request) Add(kind uint16, value []byte) { r.body = AppendAttribute(r.body, kind, value) }

// AddNumber puts a 32-bit attribute at the end.
func (r *Request) AddNumber(kind uint16, value uint32) { r.body = AppendNumber(r.body, kind, value) }

// AppendTo writes the message with that sequence number behind b.
func (r *Request) AppendTo(b []byte, seq uint32) []byte {
	b = native.AppendUint32(b, uint32(unix.SizeofNlMsghdr+len(r.body)))
	b = native.AppendUint16(b, r.kind)
	b = native.AppendUint16(b, r.flags|unix.NLM_F_REQUEST)
	b = native.AppendUint32(b, seq)
	b = native.AppendUint32(b, 0)
	return append(b, r.body...)
}

// Header is how a message begins: what of struct nlmsghdr is of use.
type Header struct {
	Kind, Flags uint16
	// Seq is that of the request that it answers, 0 when nobody asked.
	Seq uint32
	// Port is that of the socket whose request it answers or tells of, where the
	// kernel says so (it does not of IPv6 addresses), and 0 otherwise.
	Port uint32
}

// Cut takes the first message off a datagram. Body and rest are parts of that. The
// error, when it does not begin with a whole message, wraps EBADMSG.
func Cut(b []byte) (h Header, body, rest []byte, err error) {
	if len(b) < unix.SizeofNlMsghdr {
		return h, nil, nil, fmt.Errorf("netlink header of %d bytes: %w", len(b), unix.EBADMSG)
	}
	size := native.Uint32(b)
	h = Header{Kind: native.Uint16(b[4:]), Flags: native.Uint16(b[6:]), Seq: native.Uint32(b[8:]), Port: native.Uint32(b[12:])}
	if size < unix.SizeofNlMsghdr || uint64(size) > uint64(len(b)) {
		return h, nil, nil, fmt.Errorf("netlink message of %d bytes in %d: %w", size, len(b), unix.EBADMSG)
	}
	return h, b[unix.SizeofNlMsghdr:size], b[min(Align(int(size)), len(b)):], nil
}
