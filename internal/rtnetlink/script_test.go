package rtnetlink

import (
	"os"

	"golang.org/x/sys/unix"
)

// script is a fake kernel with scripted answers, for behavior that the kernel does not show
// on demand.
type script struct {
	answer func(seq uint32) [][]byte
	queue  [][]byte
	asked  int
}

func (s *script) Send(msg []byte) error {
	for len(msg) > 0 {
		h, _, rest, err := Cut(msg)
		if err != nil {
			return err
		}
		s.asked++
		s.queue = append(s.queue, s.answer(h.Seq)...)
		msg = rest
	}
	return nil
}

func (s *script) Receive(buf []byte) (int, error) {
	if len(s.queue) == 0 {
		return 0, os.NewSyscallError("recvfrom", unix.EAGAIN)
	}
	n := copy(buf, s.queue[0])
	s.queue = s.queue[1:]
	return n, nil
}

func (s *script) Close() error { return nil }

// message returns a netlink message as on the wire, padded to the alignment of the next
// message.
func message(kind, flags uint16, seq uint32, body []byte) []byte {
	b := make([]byte, unix.SizeofNlMsghdr, unix.SizeofNlMsghdr+Align(len(body)))
	native.PutUint32(b, uint32(unix.SizeofNlMsghdr+len(body)))
	native.PutUint16(b[4:], kind)
	native.PutUint16(b[6:], flags)
	native.PutUint32(b[8:], seq)
	b = append(b, body...)
	return append(b, make([]byte, Align(len(b))-len(b))...)
}

func result(kind uint16, seq uint32, errno unix.Errno) []byte {
	body := make([]byte, 4, 4+unix.SizeofNlMsghdr)
	native.PutUint32(body, uint32(-int32(errno)))
	if kind == unix.NLMSG_ERROR {
		body = append(body, make([]byte, unix.SizeofNlMsghdr)...)
	}
	return message(kind, 0, seq, body)
}

func entry(flags uint16, seq uint32, name string) []byte {
	return message(unix.RTM_NEWLINK, flags|unix.NLM_F_MULTI, seq, []byte(name))
}
