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

// Without these rules a route would be withdrawn for a moment. A full read would hide that.
func TestMessagesThatChangeNothing(t *testing.T) {
	v := newView([]string{"kube-*"})
	hear := func(kind uint16, body []byte) { v.hear(rtnetlink.Header{Kind: kind}, body) }
	hear(unix.RTM_NEWLINK, linkMessage(7, "kube-lb0", true))
	hear(unix.RTM_NEWADDR, addressMessage(7, "192.0.2.1/32", 0))
	if come, _ := v.settle(); len(come) != 1 {
		t.Fatalf("%v has come, want one address", come)
	}
	port := linkMessage(7, "kube-lb0", false)
	port[0] = unix.AF_BRIDGE
	for _, tt := range []struct {
		name  string
		hear  func()
		stale bool
	}{
		{"a port that leaves its bridge", func() { hear(unix.RTM_DELLINK, port) }, false},
		{"an address that is removed and added", func() {
			hear(unix.RTM_DELADDR, addressMessage(7, "192.0.2.1/32", 0))
			hear(unix.RTM_NEWADDR, addressMessage(7, "192.0.2.1/32", 0))
		}, false},
		{"a malformed address", func() { hear(unix.RTM_NEWADDR, []byte{1, 2}) }, true},
	} {
		v.stale = false
		tt.hear()
		if come, gone := v.settle(); len(come)+len(gone) > 0 || v.stale != tt.stale {
			t.Errorf("%s: %v came, %v went, and stale is %v, want %v", tt.name, come, gone, v.stale, tt.stale)
		}
	}
}

// Another process can write any bytes into the kernel. They must not make this process panic.
func FuzzMessages(f *testing.F) {
	f.Add(linkMessage(7, "kube-lb0", true))
	f.Add(addressMessage(7, "192.0.2.1/32", 0))
	r := route{place: place{254, netip.MustParsePrefix("198.51.100.0/24"), 20}, hops: []hop{
		{address("192.0.2.254"), 1}, {address("2001:db8::1"), 2},
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
