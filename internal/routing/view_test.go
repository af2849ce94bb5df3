package routing

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

func linkMessage(index int, name string, up bool) []byte {
	body := make([]byte, unix.SizeofIfInfomsg)
	native.PutUint32(body[4:], uint32(index))
	if up {
		native.PutUint32(body[8:], unix.IFF_UP)
	}
	return rtnetlink.AppendAttribute(body, unix.IFLA_IFNAME, append([]byte(name), 0))
}

func addressMessage(index int, prefix string, flags uint32) []byte {
	p := netip.MustParsePrefix(prefix)
	body := make([]byte, unix.SizeofIfAddrmsg)
	body[0], body[1] = rtnetlink.Family(p.Addr()), uint8(p.Bits())
	native.PutUint32(body[4:], uint32(index))
	body = rtnetlink.AppendAttribute(body, unix.IFA_ADDRESS, p.Addr().AsSlice())
	return rtnetlink.AppendNumber(body, unix.IFA_FLAGS, flags)
}

// Another process can write any bytes into the kernel. They must not make this process panic.
func FuzzMessages(f *testing.F) {
	f.Add(linkMessage(7, "kube-lb0", true))
	f.Add(addressMessage(7, "192.0.2.1/32", 0))
	r := route{place: place{254, netip.MustParsePrefix("198.51.100.0/24"), 20}, hops: []hop{
		{addr("192.0.2.254"), 1}, {addr("2001:db8::1"), 2},
	}}
	f.Add(r.request(unix.RTM_NEWROUTE, 0).AppendTo(nil, 0)[unix.SizeofNlMsghdr:])
	f.Fuzz(func(_ *testing.T, body []byte) {
		v := newView([]string{"*"})
		for _, kind := range []uint16{unix.RTM_NEWLINK, unix.RTM_DELLINK, unix.RTM_NEWADDR, unix.RTM_DELADDR, unix.RTM_NEWROUTE} {
			v.hear(rtnetlink.Header{Kind: kind}, body)
			matters(rtnetlink.Header{Kind: kind}, body)
		}
		v.settle()
		_, _ = parseRoute(body)
		_, _ = parseNeighbor(body)
	})
}
