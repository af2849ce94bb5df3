package linux

import (
	"testing"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

// Parsing ends for any message, and does not panic.
func FuzzMessages(f *testing.F) {
	f.Add(newAddress(local("eth0", "192.0.2.9/24"), 2, 0).AppendTo(nil, 1)[unix.SizeofNlMsghdr:])
	f.Add(setLink(2, true, true).AppendTo(nil, 1)[unix.SizeofNlMsghdr:])
	f.Add(make([]byte, unix.SizeofRtMsg))
	f.Fuzz(func(_ *testing.T, body []byte) {
		for _, kind := range []uint16{unix.RTM_NEWADDR, unix.RTM_NEWLINK, unix.RTM_NEWROUTE} {
			matters(rtnetlink.Header{Kind: kind}, body)
		}
		_, _ = parseAddress(body)
		_, _ = parseLink(body)
		_, _, _ = parseRoute(body, unix.AF_INET)
	})
}
