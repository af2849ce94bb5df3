package rtnetlink

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/testing/expect"
)

func TestEncodedMessagesCanBeDecoded(t *testing.T) {
	req := NewRequest(unix.RTM_NEWADDR, unix.NLM_F_CREATE, []byte{1, 2, 3, 4})
	req.AddNumber(1, 70_000)
	req.Add(2|unix.NLA_F_NESTED, AppendAttribute(nil, 3, []byte("eth0\x00")))
	req.Add(4, netip.MustParseAddr("2001:db8::1").AsSlice())
	req.Add(5, nil)
	next := NewRequest(unix.RTM_DELADDR, 0, nil)

	h, body, rest, err := Cut(next.AppendTo(req.AppendTo(nil, 7), 8))
	if want := (Header{Kind: unix.RTM_NEWADDR, Flags: unix.NLM_F_CREATE | unix.NLM_F_REQUEST, Seq: 7}); err != nil || h != want {
		t.Fatalf("got %v, %v; want %v", h, err, want)
	}
	attributes := body[4:]
	expect.Equal(t, "number", Number(Attribute(attributes, 1)), 70_000)
	expect.Equal(t, "text", string(Attribute(Attribute(attributes, 2), 3)), "eth0\x00")
	expect.Equal(t, "address", Address(Attribute(attributes, 4)).String(), "2001:db8::1")
	var kinds []uint16
	for kind := range Attributes(attributes) {
		kinds = append(kinds, kind)
	}
	expect.Equal(t, "attributes", kinds, []uint16{1, 2, 4, 5})
	if h, body, rest, err := Cut(rest); err != nil || h.Seq != 8 || len(body)+len(rest) != 0 {
		t.Errorf("the next message is %v with %d bytes and %d behind: %v", h, len(body), len(rest), err)
	}
}

// A value of the wrong size decodes to zero. It does not end the process.
func TestTruncatedValuesAreZero(t *testing.T) {
	expect.Equal(t, "number", Number([]byte{1, 2}), 0)
	if got := Address([]byte{192, 0, 2}); got.IsValid() {
		t.Errorf("address %s", got)
	}
	whole := AppendNumber(AppendNumber(nil, 1, 1), 2, 2)
	for size := range whole {
		count := 0
		for range Attributes(whole[:size]) {
			count++
		}
		if want := size / 8; count != want {
			t.Errorf("%d attributes in %d bytes, want %d", count, size, want)
		}
	}
}

// Reading ends for any content of a message, and does not panic.
func FuzzMessages(f *testing.F) {
	f.Add(append(entry(0, 1, "a"), result(unix.NLMSG_ERROR, 2, unix.EPERM)...))
	f.Add(message(unix.NLMSG_ERROR, unix.NLM_F_ACK_TLVS, 1, AppendAttribute(make([]byte, 20), unix.NLMSGERR_ATTR_MSG, []byte("no\x00"))))
	f.Add(message(unix.NLMSG_DONE, unix.NLM_F_ACK_TLVS, 1, AppendAttribute(make([]byte, 4), unix.NLMSGERR_ATTR_MSG, []byte("no\x00"))))
	f.Add(make([]byte, unix.SizeofNlMsghdr)) // a message of 0 bytes
	f.Fuzz(func(t *testing.T, datagram []byte) {
		seen := 0
		each(datagram, func(h Header, body []byte) {
			seen += unix.SizeofNlMsghdr + len(body)
			_ = errorText(failure(h, body))
			for _, value := range Attributes(body) {
				_, _ = Number(value), Address(value)
			}
		})
		if seen > len(datagram) {
			t.Errorf("%d bytes of messages in %d", seen, len(datagram))
		}
	})
}
