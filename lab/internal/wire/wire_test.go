package wire

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"purelb.io/purelb/lab/internal/topology"
)

var lab = Net(fmt.Sprintf("labtest%d-", os.Getpid()))

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "these tests make network namespaces: run them as root")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestMachinesReachEachOtherThroughTheRouter(t *testing.T) {
	p := lay(t, 2)
	for _, to := range p.Machines {
		for _, a := range []netip.Addr{to.V4(), to.V6()} {
			serve(t, to.Name, a)
			for _, from := range p.Machines {
				if err := connect(from.Name, a); err != nil {
					t.Errorf("%s to %s (%s): %v", from.Name, to.Name, a, err)
				}
			}
		}
	}
}

func TestHostNetworkIsUnchanged(t *testing.T) {
	before := host(t)
	lay(t, 1)
	if diff := cmp.Diff(before, host(t)); diff != "" {
		t.Errorf("the host's links and addresses (-before +after):\n%s", diff)
	}
}

func TestPulledCableLosesItsCarrier(t *testing.T) {
	p := lay(t, 1)
	n := p.Nodes()[0]
	for _, up := range []bool{false, true} {
		if err := lab.SetPort(n.Name, "eth0", up); err != nil {
			t.Fatal(err)
		}
		until(t, fmt.Sprintf("carrier is %v", up), func() bool { return carrier(t, n.Name, "eth0") == up })
	}
}

func TestRouteHasAllGatewaysUntilItsDeletion(t *testing.T) {
	p := lay(t, 3)
	nodes := p.Nodes()
	for _, tt := range []struct {
		to  string
		via []netip.Addr
	}{
		{"10.255.0.77/32", []netip.Addr{nodes[0].V4(), nodes[1].V4(), nodes[2].V4()}},
		{"fd00:10:255::77/128", []netip.Addr{nodes[0].V6(), nodes[1].V6(), nodes[2].V6()}},
		{"10.255.0.78/32", []netip.Addr{nodes[0].V4()}},
	} {
		to := netip.MustParsePrefix(tt.to)
		for range 2 { // the second call is no error
			if err := lab.SetRoute(topology.Router, to, tt.via...); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(fmt.Sprint(tt.via), fmt.Sprint(gateways(t, to))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", to, diff)
		}
		for range 2 {
			if err := lab.DeleteRoute(topology.Router, to); err != nil {
				t.Fatal(err)
			}
		}
		if got := gateways(t, to); len(got) != 0 {
			t.Errorf("%s is still there: %v", to, got)
		}
	}
}

func TestAMachineCanBeUnpluggedAndBuiltAgain(t *testing.T) {
	p := lay(t, 1)
	n := p.Nodes()[0]
	for range 2 { // the second call is no error
		if err := lab.Unplug(n.Name, n.NICs); err != nil {
			t.Fatal(err)
		}
		if err := lab.Delete(n.Name); err != nil {
			t.Fatal(err)
		}
	}
	if err := lab.BuildMachine(n); err != nil {
		t.Fatal(err)
	}
	serve(t, n.Name, n.V4())
	if err := connect(topology.Client, n.V4()); err != nil {
		t.Error(err)
	}
}

// "ip netns add" on a machine for the first time must not hide the namespaces of the lab.
func TestIPNetnsHidesNoNamespace(t *testing.T) {
	p := lay(t, 1)
	name := string(lab) + "of-ip"
	for _, command := range []string{"add", "delete"} {
		if out, err := exec.Command("ip", "netns", command, name).CombinedOutput(); err != nil {
			t.Fatalf("ip netns %s: %v\n%s", command, err, out)
		}
	}
	for _, m := range p.Machines {
		must(t, lab.Delete(m.Name))
		if _, err := os.Lstat(lab.Netns(m.Name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", lab.Netns(m.Name), err)
		}
	}
}

// lay builds the network of a whole lab.
func lay(t *testing.T, nodes int) topology.Plan {
	t.Helper()
	p, err := topology.New(nodes, topology.Worlds[0])
	must(t, err)
	t.Cleanup(func() {
		for _, name := range lab.Namespaces() {
			must(t, lab.Delete(name))
		}
	})
	must(t, lab.BuildSwitch())
	for _, m := range p.Machines {
		must(t, lab.BuildMachine(m))
	}
	return p
}

const port = 7777

func serve(t *testing.T, machine string, a netip.Addr) {
	t.Helper()
	must(t, In(lab.Netns(machine), func() error {
		l, err := net.Listen("tcp", netip.AddrPortFrom(a, port).String())
		if err == nil {
			t.Cleanup(func() { _ = l.Close() })
		}
		return err
	}))
}

// connect stays on its thread, unlike a dialer of package net.
func connect(machine string, a netip.Addr) error {
	return In(lab.Netns(machine), func() error {
		family, to := unix.AF_INET, unix.Sockaddr(&unix.SockaddrInet4{Port: port, Addr: v4(a)})
		if a.Is6() {
			family, to = unix.AF_INET6, &unix.SockaddrInet6{Port: port, Addr: a.As16()}
		}
		fd, err := unix.Socket(family, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		limit := unix.Timeval{Sec: 30}
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit); err != nil {
			return err
		}
		for {
			// The kernel does not restart an interrupted call with a time limit. A second call waits for the
			// connection of the first one.
			if err := unix.Connect(fd, to); !errors.Is(err, unix.EINTR) {
				return err
			}
		}
	})
}

func v4(a netip.Addr) (b [4]byte) {
	copy(b[:], a.AsSlice())
	return b
}

func host(t *testing.T) string {
	t.Helper()
	interfaces, err := net.Interfaces()
	must(t, err)
	var b strings.Builder
	for _, i := range interfaces {
		addrs, err := i.Addrs()
		must(t, err)
		fmt.Fprintln(&b, i.Name, addrs)
	}
	return b.String()
}

func carrier(t *testing.T, machine, nic string) (up bool) {
	t.Helper()
	must(t, lab.with(machine, func(h *netlink.Handle) error {
		l, err := h.LinkByName(nic)
		if err == nil {
			up = l.Attrs().RawFlags&unix.IFF_LOWER_UP != 0
		}
		return err
	}))
	return up
}

// gateways returns the router's next hops to a prefix, ascending.
func gateways(t *testing.T, to netip.Prefix) (via []netip.Addr) {
	t.Helper()
	must(t, lab.with(topology.Router, func(h *netlink.Handle) error {
		routes, err := h.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Dst: ipnet(to)}, netlink.RT_FILTER_DST)
		for _, r := range routes {
			hops := r.MultiPath
			if len(hops) == 0 {
				hops = []*netlink.NexthopInfo{{Gw: r.Gw}}
			}
			for _, hop := range hops {
				a, _ := netip.AddrFromSlice(hop.Gw)
				via = append(via, a.Unmap())
			}
		}
		return err
	}))
	slices.SortFunc(via, netip.Addr.Compare)
	return via
}

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("timeout while waiting: %s", what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
