package routing

import (
	"encoding/binary"
	"fmt"
	"iter"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"
)

// native is the byte order of netlink: the machine's.
var native = binary.NativeEndian

// request is a message to the kernel: its type, its flags, and a body of a fixed
// structure and attributes.
type request struct {
	kind, flags uint16
	body        []byte
}

// newRequest begins a message with the structure that its type has.
func newRequest(kind, flags uint16, structure []byte) *request {
	return &request{kind: kind, flags: flags, body: structure}
}

// add puts an attribute at the end.
func (r *request) add(kind uint16, value []byte) { r.body = appendAttribute(r.body, kind, value) }

func (r *request) addNumber(kind uint16, value uint32) {
	r.add(kind, native.AppendUint32(nil, value))
}

func (r *request) appendTo(b []byte, seq uint32) []byte {
	b = native.AppendUint32(b, uint32(unix.SizeofNlMsghdr+len(r.body)))
	b = native.AppendUint16(b, r.kind)
	b = native.AppendUint16(b, r.flags|unix.NLM_F_REQUEST)
	b = native.AppendUint32(b, seq)
	b = native.AppendUint32(b, 0)
	return append(b, r.body...)
}

// appendAttribute keeps b aligned, as everything in a message is.
func appendAttribute(b []byte, kind uint16, value []byte) []byte {
	b = native.AppendUint16(b, uint16(unix.SizeofRtAttr+len(value)))
	b = native.AppendUint16(b, kind)
	b = append(b, value...)
	return append(b, make([]byte, align(len(value))-len(value))...)
}

// header is how a message begins.
type header struct {
	kind, flags uint16
	seq         uint32
}

// cut takes the first message off a datagram.
func cut(b []byte) (h header, body, rest []byte, err error) {
	if len(b) < unix.SizeofNlMsghdr {
		return h, nil, nil, fmt.Errorf("netlink header of %d bytes: %w", len(b), unix.EBADMSG)
	}
	size := native.Uint32(b)
	h = header{kind: native.Uint16(b[4:]), flags: native.Uint16(b[6:]), seq: native.Uint32(b[8:])}
	if size < unix.SizeofNlMsghdr || uint64(size) > uint64(len(b)) {
		return h, nil, nil, fmt.Errorf("netlink message of %d bytes in %d: %w", size, len(b), unix.EBADMSG)
	}
	return h, b[unix.SizeofNlMsghdr:size], b[min(align(int(size)), len(b)):], nil
}

// attributes yields the type and value of each attribute in b, up to the first
// that is cut short.
func attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofRtAttr {
			size := int(native.Uint16(b))
			if size < unix.SizeofRtAttr || size > len(b) {
				return
			}
			kind := native.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
			if !yield(kind, b[unix.SizeofRtAttr:size]) {
				return
			}
			b = b[min(align(size), len(b)):]
		}
	}
}

// align rounds n up to the boundary on which netlink puts things.
func align(n int) int { return (n + 3) &^ 3 }

// number reads a 32-bit attribute; one of another size is 0.
func number(value []byte) uint32 {
	if len(value) != 4 {
		return 0
	}
	return native.Uint32(value)
}

// text reads a string attribute.
func text(value []byte) string {
	s, _, _ := strings.Cut(string(value), "\x00")
	return s
}

// address reads an address attribute; one of another size is the zero Addr.
func address(value []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(value)
	return a
}

func familyOf(a netip.Addr) uint8 {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// kernelError is a refusal with the kernel's explanation.
type kernelError struct {
	errno unix.Errno
	text  string
}

func (e kernelError) Error() string {
	if e.text == "" {
		return e.errno.Error()
	}
	return fmt.Sprintf("%s (%s)", strings.TrimSuffix(e.text, "."), e.errno.Error())
}

func (e kernelError) Unwrap() error { return e.errno }

// failure reads the result that ends a dump or answers a request.
func failure(h header, body []byte) error {
	if len(body) < 4 {
		return fmt.Errorf("netlink result of %d bytes: %w", len(body), unix.EBADMSG)
	}
	code := int32(native.Uint32(body))
	if code == 0 {
		return nil
	}
	e := kernelError{errno: unix.Errno(-code)}
	if h.flags&unix.NLM_F_ACK_TLVS == 0 {
		return e
	}
	skip := 4
	if h.kind == unix.NLMSG_ERROR {
		skip += unix.SizeofNlMsghdr // the request's, without its body: NETLINK_CAP_ACK
	}
	for kind, value := range attributes(body[min(skip, len(body)):]) {
		if kind == unix.NLMSGERR_ATTR_MSG {
			e.text = text(value)
		}
	}
	return e
}
