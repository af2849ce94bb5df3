package main

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/bgptest"
)

// solo is a k8gobgp in the namespace of this process that peers with routers.
type solo struct {
	*testing.B
	server  *apitest.Server
	program string
	routers []*bgptest.Router
	// floor is the namespace of the floor.
	floor *bgptest.Namespace
}

// router waits for the node and for the floor to come.
const router = `
router id %[1]s;
template bgp node { passive yes; local %[1]s as 64514; ipv4 { import all; export where source = RTS_STATIC; }; ipv6 { import all; export none; }; }
protocol bgp speaker from node { neighbor 192.0.2.1 as 65000; }
protocol bgp floor from node { neighbor 192.0.2.3 as 65001; }
`

func newSolo(b *testing.B, routers int, more ...string) *solo {
	w := &solo{B: b, program: filepath.Join(b.TempDir(), "k8gobgp")}
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", w.program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build k8gobgp: %v\n%s", err, out)
	}
	wire, here := bgptest.NewSegment(b), bgptest.Here(b)
	wire.Join(here, "eth0", "192.0.2.1/24")
	here.IP("route add default via 192.0.2.10") // an API server looks for one to know where it is
	w.server = apitest.Start(b)
	w.floor = bgptest.NewNamespace(b)
	wire.Join(w.floor, "eth0", "192.0.2.3/24")
	for i := range routers {
		n := bgptest.NewNamespace(b)
		wire.Join(n, "eth0", routerAddress(i)+"/24")
		w.routers = append(w.routers, bgptest.BIRD(b, n, fmt.Sprintf(router, routerAddress(i))+strings.Join(more, "")))
	}
	w.kubectl("", "create", "namespace", "purelb-system")
	w.kubectl("{apiVersion: v1, kind: Node, metadata: {name: node-1}}", "apply", "-f", "-")
	w.kubectl("", "patch", "node", "node-1", "--subresource=status", "-p", `{"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}}`)
	return w
}

func routerAddress(i int) string { return fmt.Sprintf("192.0.2.%d", 10+i) }

func (w *solo) kubectl(input string, args ...string) {
	w.Helper()
	if out, err := w.server.Kubectl(input, args...); err != nil {
		w.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
}

// configure has the node peer with all routers, which may announce any number of routes.
func (w *solo) configure() {
	w.Helper()
	var neighbors []string
	for i := range w.routers {
		neighbors = append(neighbors, fmt.Sprintf("{config: {neighborAddress: %s, peerAsn: 64514}, afiSafis: [{family: ipv4-unicast, prefixLimit: {maxPrefixes: 0}}, {family: ipv6-unicast}]}", routerAddress(i)))
	}
	w.kubectl(fmt.Sprintf(`{apiVersion: bgp.purelb.io/v1, kind: BGPConfiguration, metadata: {name: default, namespace: purelb-system},
  spec: {global: {asn: 65000}, neighbors: [%s]}}`, strings.Join(neighbors, ", ")), "apply", "-f", "-")
}

// addresses adds those from number from until to to the dummy interface.
func (w *solo) addresses(from, to int) {
	w.Helper()
	link, err := netlink.LinkByName("kube-lb0")
	if err != nil {
		w.Fatal(err)
	}
	for i := from; i < to; i++ {
		p := prefix(18, i)
		ip := &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
		if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: ip}); err != nil {
			w.Fatal(err)
		}
	}
}

// withoutAddresses makes the dummy interface anew.
func (w *solo) withoutAddresses() {
	w.Helper()
	here := bgptest.Here(w)
	_, _ = here.Run("ip", "link", "del", "kube-lb0") // unless it is not there yet
	here.IP("link add kube-lb0 type ifb\nlink set kube-lb0 up")
}

func prefix(second byte, i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, second, byte(i >> 8), byte(i)}), 32)
}

// running is a process whose costs are measured.
type running struct {
	w     *solo
	cmd   *exec.Cmd
	pidfd int
	out   bytes.Buffer
}

// start starts a k8gobgp, and waits for its sessions.
func (w *solo) start() *running {
	w.Helper()
	w.withoutAddresses()
	w.configure()
	cmd := exec.Command(w.program, "--node-name", "node-1", "--pod-name", "speaker", "--namespace", "purelb-system", "--kubeconfig", w.server.Kubeconfig,
		"--state-dir", w.TempDir(), "--metrics-bind-address", "127.0.0.1:7473", "--health-probe-bind-address", "127.0.0.1:7474")
	p := w.run(bgptest.Here(w), cmd)
	for _, r := range w.routers {
		r.AwaitSays("show protocols speaker", "Established")
	}
	return p
}

func (w *solo) startBare() *running {
	w.Helper()
	exe, err := os.Executable()
	if err != nil {
		w.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), asBare+"=1")
	return w.run(w.floor, cmd)
}

func (w *solo) run(where *bgptest.Namespace, cmd *exec.Cmd) *running {
	w.Helper()
	p := &running{w: w, cmd: cmd}
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	cmd.SysProcAttr = &syscall.SysProcAttr{PidFD: &p.pidfd}
	if err := where.Start(cmd); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if w.Failed() {
			w.Logf("%s:\n%s", cmd.Path, &p.out)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // It says that it was killed.
	})
	return p
}

func (p *running) end() {
	p.w.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		p.w.Fatalf("%v\n%s", err, &p.out)
	}
}

// cpu is the CPU time that the process has had, to the nanosecond.
func (p *running) cpu() time.Duration {
	p.w.Helper()
	var t unix.Timespec
	const scheduled = 2 // CPUCLOCK_SCHED
	if err := unix.ClockGettime(int32(^p.cmd.Process.Pid<<3|scheduled), &t); err != nil {
		p.w.Fatalf("CPU time of %s: %v\n%s", p.cmd.Path, err, &p.out)
	}
	return time.Duration(t.Nano())
}

// settled is what the process holds that is not backed by files, in MB, once it
// has done nothing for a while.
func (p *running) settled() float64 {
	p.w.Helper()
	time.Sleep(settling)
	status, err := os.ReadFile(filepath.Join("/proc", p.outerPID(), "status"))
	if err != nil {
		p.w.Fatal(err)
	}
	kb, _ := strconv.ParseFloat(field(string(status), "RssAnon:"), 64)
	if kb == 0 {
		p.w.Fatal("the kernel does not tell the memory of a process")
	}
	return kb / 1000
}

// outerPID is the number of the process in /proc, which shows those of the
// namespace that the tests were started in.
func (p *running) outerPID() string {
	p.w.Helper()
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", p.pidfd))
	if err != nil {
		p.w.Fatal(err)
	}
	return field(string(info), "Pid:")
}

// field is the first word after name in a file of /proc.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.Fields(rest)[0]
		}
	}
	return ""
}
