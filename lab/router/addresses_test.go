package router

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// The watch also sees an address that exists only for a moment.
func TestWatchSeesPresentAndNewAddresses(t *testing.T) {
	w, err := FollowAddresses(namespace(t))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	link, err := netlink.LinkByName("br0")
	if err != nil {
		t.Fatal(err)
	}
	address, _ := netlink.ParseAddr("192.0.2.7/32")
	if err := netlink.AddrAdd(link, address); err != nil {
		t.Fatal(err)
	}
	if err := netlink.AddrDel(link, address); err != nil {
		t.Fatal(err)
	}
	want := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::1")}
	missing := want
	for deadline := time.Now().Add(30 * time.Second); len(missing) > 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		seen, err := w.Seen()
		if err != nil {
			t.Fatal(err)
		}
		missing = slices.DeleteFunc(slices.Clone(want), func(a netip.Addr) bool {
			return slices.ContainsFunc(seen, func(s Added) bool { return s.Address == a })
		})
	}
	if len(missing) > 0 {
		t.Errorf("the watch never saw the addresses %v", missing)
	}
}
