package rtnetlink

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// native is the byte order of netlink: that of the machine.
var native = binary.NativeEndian

// Request is a message to the kernel: its kind, its flags, and a body that consists of a
// fixed structure and attributes. Only one goroutine at a time may use it. It can be sent
// again.
type Request struct {
	kind, flags uint16
	body        []byte
}

// NewRequest returns a request of a kind such as unix.RTM_GETLINK, with the structure of
// that kind, such as a struct ifinfomsg. flags are those of the kind, such as
// unix.NLM_F_CREATE. The sender adds the flags that request answers.
func NewRequest(kind, flags uint16, structure []byte) *Request {
	return &Request{kind: kind, flags: flags, body: structure}
}

// Add appends an attribute.
func (r *Request) Add(kind uint16, value []byte) { r.body = AppendAttribute(r.body, kind, value) }

// AddNumber appends a 32-bit attribute.
func (r *Request) AddNumber(kind uint16, value uint32) { r.body = AppendNumber(r.body, kind, value) }

// AppendTo appends the message with this sequence number to b.
func (r *Request) AppendTo(b []byte, seq uint32) []byte {
	b = native.AppendUint32(b, uint32(unix.SizeofNlMsghdr+len(r.body)))
	b = native.AppendUint16(b, r.kind)
	b = native.AppendUint16(b, r.flags|unix.NLM_F_REQUEST)
	b = native.AppendUint32(b, seq)
	b = native.AppendUint32(b, 0)
	return append(b, r.body...)
}

// Header contains the useful fields of struct nlmsghdr.
type Header struct {
	Kind, Flags uint16
	// Seq is the sequence number of the request that the message answers, or 0 if it
	// answers none.
	Seq uint32
	// Port is the port of the socket whose request the message answers or reports. It is 0
	// if the kernel does not report the port, as for IPv6 addresses.
	Port uint32
}

// Cut splits the first message off a datagram. body and rest share memory with b. If b does
// not begin with a whole message, the error wraps EBADMSG.
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

// refusal is an error of the kernel with the kernel's explanation.
type refusal struct {
	errno unix.Errno
	text  string
}

func (r refusal) Error() string {
	if r.text == "" {
		return r.errno.Error()
	}
	return fmt.Sprintf("%s (%s)", strings.TrimSuffix(r.text, "."), r.errno.Error())
}

func (r refusal) Unwrap() error { return r.errno }

// failure decodes the message that ends a dump or answers a request.
func failure(h Header, body []byte) error {
	if len(body) < 4 {
		return fmt.Errorf("netlink result of %d bytes: %w", len(body), unix.EBADMSG)
	}
	code := int32(native.Uint32(body))
	if code == 0 {
		return nil
	}
	r := refusal{errno: unix.Errno(-code)}
	if h.Flags&unix.NLM_F_ACK_TLVS == 0 {
		return r
	}
	skip := 4
	if h.Kind == unix.NLMSG_ERROR {
		skip += unix.SizeofNlMsghdr // the header of the request, without its body: NETLINK_CAP_ACK
	}
	r.text = unix.ByteSliceToString(Attribute(body[min(skip, len(body)):], unix.NLMSGERR_ATTR_MSG))
	return r
}
