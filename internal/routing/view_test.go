package routing

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/peering"
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

// settled returns the result of settle as text, with a plus for each addition and a minus for each
// removal.
func settled(v *view) string {
	come, gone := v.settle()
	var words []string
	for sign, all := range map[string][]peering.Imported{"+": come, "-": gone} {
		for _, i := range all {
			words = append(words, sign+i.Interface+" "+i.Address.String())
		}
	}
	return strings.Join(words, ", ")
}

// The view processes messages without a full read.
func TestMessagesUpdateTheView(t *testing.T) {
	v := newView([]string{"kube-*"})
	link := func(kind uint16, name string, up bool) func() {
		return func() { v.hear(rtnetlink.Header{Kind: kind}, linkMessage(7, name, up)) }
	}
	address := func(kind uint16, prefix string, flags uint32) func() {
		return func() { v.hear(rtnetlink.Header{Kind: kind}, addressMessage(7, prefix, flags)) }
	}
	const newLink, delLink, newAddr, delAddr = unix.RTM_NEWLINK, unix.RTM_DELLINK, unix.RTM_NEWADDR, unix.RTM_DELADDR
	for _, scene := range []struct {
		name  string
		hear  []func()
		want  string
		stale bool
	}{
		{"an address of an unknown link", []func(){address(newAddr, "192.0.2.1/32", 0)}, "", true},
		{"the link of the address", []func(){link(newLink, "kube-lb0", true)}, "+kube-lb0 192.0.2.1/32", true},
		{"the same messages again", []func(){link(newLink, "kube-lb0", true), address(newAddr, "192.0.2.1/32", 0)}, "", false},
		{"a tentative address", []func(){address(newAddr, "2001:db8::1/128", unix.IFA_F_TENTATIVE)}, "", false},
		{"the address is not tentative any more", []func(){address(newAddr, "2001:db8::1/128", 0)}, "+kube-lb0 2001:db8::1/128", false},
		{"the address is a duplicate", []func(){address(newAddr, "2001:db8::1/128", unix.IFA_F_DADFAILED)}, "-kube-lb0 2001:db8::1/128", false},
		{"an address is added and removed", []func(){address(newAddr, "192.0.2.2/32", 0), address(delAddr, "192.0.2.2/32", 0)}, "", false},
		{"an address is removed and added", []func(){address(delAddr, "192.0.2.1/32", 0), address(newAddr, "192.0.2.1/32", 0)}, "", false},
		{"the link gets another wanted name", []func(){link(newLink, "kube-lb1", true)}, "+kube-lb1 192.0.2.1/32, -kube-lb0 192.0.2.1/32", true},
		{"the link is down", []func(){link(newLink, "kube-lb1", false)}, "-kube-lb1 192.0.2.1/32", true},
		{"the link is up", []func(){link(newLink, "kube-lb1", true)}, "+kube-lb1 192.0.2.1/32", true},
		{"the link gets an unwanted name", []func(){link(newLink, "eth0", true)}, "-kube-lb1 192.0.2.1/32", true},
		{"changes of a link with an unwanted name", []func(){link(newLink, "eth1", false), link(newLink, "eth1", true)}, "", false},
		{"the link has its first name again", []func(){link(newLink, "kube-lb0", true)}, "+kube-lb0 192.0.2.1/32", true},
		{"a message about a port of a bridge", []func(){func() {
			port := linkMessage(7, "kube-lb0", false)
			port[0] = unix.AF_BRIDGE
			v.hear(rtnetlink.Header{Kind: delLink}, port)
		}}, "", false},
		{"the link is deleted", []func(){link(delLink, "kube-lb0", true)}, "-kube-lb0 192.0.2.1/32", true},
		{"a malformed address message", []func(){func() { v.hear(rtnetlink.Header{Kind: newAddr}, []byte{1, 2}) }}, "", true},
		{"an empty link message", []func(){func() { v.hear(rtnetlink.Header{Kind: newLink}, nil) }}, "", true},
	} {
		v.stale = false
		for _, hear := range scene.hear {
			hear()
		}
		got := strings.Join(slices.Sorted(slices.Values(strings.Split(settled(v), ", "))), ", ")
		if got != scene.want || v.stale != scene.stale {
			t.Errorf("%s: the changes are %q and stale is %v, want %q and %v", scene.name, got, v.stale, scene.want, scene.stale)
		}
	}
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
