package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
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

func connect(machine string, a netip.Addr) error {
	conn, err := Dial(context.Background(), lab.Netns(machine), net.Dialer{Timeout: 30 * time.Second}, "tcp", netip.AddrPortFrom(a, port).String())
	if err != nil {
		return err
	}
	return conn.Close()
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
