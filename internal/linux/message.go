package linux

import (
	"encoding/binary"
	"fmt"
	"iter"
	"strings"

	"golang.org/x/sys/unix"
)

// native is the byte order of netlink: the machine's.
var native = binary.NativeEndian

// cut takes the first message off a datagram.
func cut(b []byte) (h unix.NlMsghdr, body, rest []byte, err error) {
	if len(b) < unix.SizeofNlMsghdr {
		return h, nil, nil, fmt.Errorf("netlink header of %d bytes: %w", len(b), unix.EBADMSG)
	}
	h = unix.NlMsghdr{
		Len:   native.Uint32(b),
		Type:  native.Uint16(b[4:]),
		Flags: native.Uint16(b[6:]),
		Seq:   native.Uint32(b[8:]),
		Pid:   native.Uint32(b[12:]),
	}
	if h.Len < unix.SizeofNlMsghdr || uint64(h.Len) > uint64(len(b)) {
		return h, nil, nil, fmt.Errorf("netlink message of %d bytes in %d: %w", h.Len, len(b), unix.EBADMSG)
	}
	return h, b[unix.SizeofNlMsghdr:h.Len], b[min(align(int(h.Len)), len(b)):], nil
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
func failure(h unix.NlMsghdr, body []byte) error {
	if len(body) < 4 {
		return fmt.Errorf("netlink result of %d bytes: %w", len(body), unix.EBADMSG)
	}
	code := int32(native.Uint32(body))
	if code == 0 {
		return nil
	}
	e := kernelError{errno: unix.Errno(-code)}
	if h.Flags&unix.NLM_F_ACK_TLVS == 0 {
		return e
	}
	skip := 4
	if h.Type == unix.NLMSG_ERROR {
		skip += unix.SizeofNlMsghdr // the request's, without its body: NETLINK_CAP_ACK
	}
	for kind, value := range attributes(body[min(skip, len(body)):]) {
		if kind == unix.NLMSGERR_ATTR_MSG {
			e.text = text(value)
		}
	}
	return e
}
