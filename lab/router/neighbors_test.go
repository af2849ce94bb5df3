package router

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestARouterForgetsAnAddress(t *testing.T) {
	here := namespace(t)
	link, err := netlink.LinkByName("br0")
	if err != nil {
		t.Fatal(err)
	}
	known := []netip.Addr{netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("2001:db8::9"), netip.MustParseAddr("192.0.2.10")}
	for _, a := range known {
		err := netlink.NeighSet(&netlink.Neigh{
			LinkIndex: link.Attrs().Index, State: netlink.NUD_REACHABLE, IP: a.AsSlice(), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 9},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	macs, err := Neighbors(here)
	if err != nil || macs[known[0]] != "02:00:00:00:00:09" || macs[known[1]] != "02:00:00:00:00:09" {
		t.Errorf("the router has %v, %v in its table", macs, err)
	}
	for range 2 { // the second time, there is no entry
		for _, a := range known[:2] {
			if err := Forget(here, a); err != nil {
				t.Fatal(err)
			}
		}
	}
	all, err := netlink.NeighList(link.Attrs().Index, netlink.FAMILY_ALL)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, n := range all {
		if n.State == netlink.NUD_REACHABLE {
			left = append(left, n.IP.String())
		}
	}
	if len(left) != 1 || left[0] != "192.0.2.10" {
		t.Errorf("the router knows %v, want 192.0.2.10", left)
	}
}
