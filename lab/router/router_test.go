package router

import (
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The test acts as the routing daemon in its own network namespace.
func TestKernelRoutesAreReadAndFollowed(t *testing.T) {
	here := namespace(t)
	w, err := Follow(here)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	dst := netip.MustParsePrefix("10.255.0.1/32")
	dst6 := netip.MustParsePrefix("fd00:10:255::1/128")
	replace(t, dst, unix.RTPROT_BGP, "192.0.2.2")
	replace(t, dst, unix.RTPROT_BGP, "192.0.2.3", "192.0.2.2")
	replace(t, dst6, unix.RTPROT_BGP, "2001:db8::2", "2001:db8::3")
	replace(t, netip.MustParsePrefix("10.255.0.2/32"), unix.RTPROT_STATIC, "192.0.2.2")

	routes, err := Learned(here)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(routes), "[10.255.0.1/32 via 192.0.2.2, 192.0.2.3 fd00:10:255::1/128 via 2001:db8::2, 2001:db8::3]"; got != want {
		t.Errorf("learned %s, want %s", got, want)
	}
	if err := netlink.RouteDel(&netlink.Route{Dst: ipnet(dst)}); err != nil {
		t.Fatal(err)
	}
	if r, err := To(here, dst); err != nil || len(r.Via) > 0 {
		t.Errorf("after its removal, the route is %s, %v", r, err)
	}
	events := await(t, w, 4)
	if last := events[3]; !last.Gone || last.Route.Prefix != dst {
		t.Errorf("the last event of %v is not the removal of the first route", events)
	}
	if second := events[1]; second.Gone || len(second.Route.Via) != 2 {
		t.Errorf("the second event of %v does not have two next hops", events)
	}
}

// await waits for n events and returns them.
func await(t *testing.T, w *Watch[Event], n int) []Event {
	t.Helper()
	var events []Event
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		var err error
		if events, err = w.Seen(); err != nil {
			t.Fatal(err)
		}
		if len(events) >= n {
			return events
		}
	}
	t.Fatalf("want %d events, have %v", n, events)
	return nil
}

// namespace makes a network namespace for this test, with an interface of both families. It returns
// the path of the namespace.
func namespace(t *testing.T) string {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread dies with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
	if err := netlink.LinkAdd(link); err != nil {
		t.Fatal(err)
	}
	for _, a := range []string{"192.0.2.1/24", "2001:db8::1/64"} {
		address, err := netlink.ParseAddr(a)
		if err != nil {
			t.Fatal(err)
		}
		address.Flags = unix.IFA_F_NODAD
		if err := netlink.AddrAdd(link, address); err != nil {
			t.Fatal(err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid())
}

func replace(t *testing.T, to netip.Prefix, protocol int, via ...string) {
	t.Helper()
	r := &netlink.Route{Dst: ipnet(to), Protocol: netlink.RouteProtocol(protocol)}
	for _, v := range via {
		r.MultiPath = append(r.MultiPath, &netlink.NexthopInfo{Gw: net.ParseIP(v)})
	}
	if err := netlink.RouteReplace(r); err != nil {
		t.Fatal(err)
	}
}

func ipnet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
