package linux

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/testing/expect"
)

// newWorld moves the test to its own thread in a new network namespace. The thread ends
// with the test, and the namespace with the thread. Worlds are independent, so their tests
// run in parallel.
func newWorld(t testing.TB) {
	t.Helper()
	if side, ok := t.(interface{ Parallel() }); ok {
		side.Parallel()
	}
	runtime.LockOSThread() // never unlocked
	err := unix.Unshare(unix.CLONE_NEWNET)
	if errors.Is(err, unix.EPERM) {
		t.Fatal("these tests make network namespaces: run them as root")
	}
	if err != nil {
		t.Fatalf("make a network namespace: %v", err)
	}
	ip(t, "link set lo up")
}

// newStack opens the stack of the test's namespace.
func newStack(t testing.TB) *Stack {
	t.Helper()
	s, err := New(slog.New(slog.DiscardHandler))
	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ip runs iproute2's command in the test's namespace, once per line of script.
func ip(t testing.TB, script string) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(script) {
		args := strings.Fields(line)
		if len(args) == 0 {
			continue
		}
		b, err := exec.Command("ip", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, b)
		}
		out.Write(b)
	}
	return out.String()
}

func sysctl(t testing.TB, name, value string) {
	t.Helper()
	path := "/proc/sys/net/" + strings.ReplaceAll(name, ".", "/")
	expect.NoError(t, os.WriteFile(path, []byte(value), 0))
}

func observe(t testing.TB, s *Stack) announce.Node {
	t.Helper()
	node, err := s.Observe(t.Context())
	expect.NoError(t, err)
	return node
}

func put(t testing.TB, s *Stack, addrs ...announce.Address) {
	t.Helper()
	expect.NoError(t, s.Put(t.Context(), addrs))
}

func remove(t testing.TB, s *Stack, addrs ...announce.Address) {
	t.Helper()
	expect.NoError(t, s.Remove(t.Context(), addrs))
}

// dummy makes the link kube-lb0.
func dummy(t testing.TB, s *Stack) {
	t.Helper()
	expect.NoError(t, s.EnsureDummy(t.Context(), "kube-lb0"))
}

// addresses lists the addresses of a link, without those that the kernel added.
func addresses(t testing.TB, s *Stack, link string) string {
	t.Helper()
	var b strings.Builder
	for _, a := range observe(t, s).Addresses {
		if a.Link == link && !a.Prefix.Addr().IsLinkLocalUnicast() {
			fmt.Fprintln(&b, show(a))
		}
	}
	return b.String()
}

func show(a announce.Address) string {
	words := []string{a.Prefix.String(), "valid", life(a.Valid), "preferred", life(a.Preferred)}
	for word, is := range map[string]bool{
		"noprefixroute": a.NoPrefixRoute, "nodad": a.NoDAD, "tentative": a.Tentative, "failed": a.Failed,
	} {
		if is {
			words = append(words, word)
		}
	}
	slices.Sort(words[5:])
	if a.Mark != 0 {
		words = append(words, fmt.Sprintf("mark %d", a.Mark))
	}
	return strings.Join(words, " ")
}

// life shows a lifetime in whole hours, rounded up, because lifetimes run down.
func life(d time.Duration) string {
	if d == announce.Forever {
		return "forever"
	}
	return fmt.Sprintf("%.0fh", math.Ceil(d.Hours()))
}

func local(link, prefix string) announce.Address {
	a := announce.Address{
		Prefix: netip.MustParsePrefix(prefix), Link: link,
		Valid: time.Hour, NoPrefixRoute: true, NoDAD: true,
	}
	if a.Prefix.Addr().Is4() {
		a.Preferred = a.Valid
	}
	return a
}

// sources returns addresses to ask from, each with its network.
func sources(prefixes ...string) (all []announce.Source) {
	for _, text := range prefixes {
		p := netip.MustParsePrefix(text)
		all = append(all, announce.Source{Addr: p.Addr(), Network: p.Masked()})
	}
	return all
}

// single is a local address in a network in which the node has no other address with a mask.
func single(link, prefix string) announce.Address {
	a := local(link, prefix)
	a.LinkScope = true
	return a
}

// join returns a local address that the kernel has without a mark.
func join(link, prefix string) announce.Address {
	a := local(link, prefix)
	a.Join = true
	return a
}

func remote(link, prefix string) announce.Address {
	return announce.Address{
		Prefix: netip.MustParsePrefix(prefix), Link: link,
		Valid: announce.Forever, Preferred: announce.Forever, NoDAD: true,
	}
}

// patience is the longest wait in these tests.
const patience = time.Minute

// eventually waits for an effect in the kernel. It asks again and again, because the kernel's signals
// are what is tested here.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// settle waits until no address is tentative. That takes a moment even without duplicate address
// detection.
func settle(t testing.TB, s *Stack) {
	t.Helper()
	eventually(t, "no address is tentative", func() bool {
		return !slices.ContainsFunc(observe(t, s).Addresses, func(a announce.Address) bool { return a.Tentative })
	})
}

// neighborhood is another network namespace at the other end of a veth pair. Both ends are called
// eth0.
type neighborhood struct {
	thread chan func()
}

// newNeighborhood makes a neighborhood for a test that has called newWorld.
func newNeighborhood(t testing.TB) neighborhood {
	t.Helper()
	n := neighborhood{thread: make(chan func())}
	tid := make(chan int)
	go func() {
		runtime.LockOSThread() // never unlocked
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
		}
		tid <- unix.Gettid()
		for f := range n.thread {
			f()
		}
	}()
	there := fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), <-tid)
	t.Cleanup(func() { close(n.thread) })
	ip(t, "link add eth0 type veth peer name eth0 netns "+there)
	ip(t, "link set eth0 address 02:00:00:00:00:01 up")
	n.do(func() { ip(t, "link set eth0 address 02:00:00:00:00:02 up") })
	isUp(t, "eth0")
	n.do(func() { isUp(t, "eth0") })
	return n
}

// isUp waits until a link carries packets. A carrier is not enough: the kernel gives the link a
// queue a moment later, and loses packets before that.
func isUp(t testing.TB, link string) {
	t.Helper()
	eventually(t, link+" is up", func() bool { return strings.Contains(ip(t, "link show "+link), "state UP") })
}

// served waits until the kernel has made the local routes of the IPv6 addresses with these
// beginnings. Before that, it may not answer for them. These routes are the last effect of a new
// address.
func served(t testing.TB, link string, addresses ...string) {
	t.Helper()
	for _, a := range addresses {
		eventually(t, a+" is served on "+link, func() bool {
			return strings.Contains(ip(t, "-6 route show table local dev "+link), "local "+a)
		})
	}
}

// do runs f in the neighborhood.
func (n neighborhood) do(f func()) {
	done := make(chan struct{})
	n.thread <- func() {
		defer close(done)
		f()
	}
	<-done
}

// ip runs iproute2 in the neighborhood.
func (n neighborhood) ip(t testing.TB, script string) (out string) {
	t.Helper()
	n.do(func() { out = ip(t, script) })
	return out
}

// capture opens a socket in the neighborhood that receives all frames.
func (n neighborhood) capture(t testing.TB) (fd int) {
	t.Helper()
	n.do(func() { fd = capture(t) })
	return fd
}

// capture opens a socket that receives all frames.
func capture(t testing.TB) (fd int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(networkOrder(unix.ETH_P_ALL)))
	if err != nil {
		t.Error(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	wait := unix.NsecToTimeval(int64(patience))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		t.Error(err)
	}
	return fd
}

// say sends frames from the neighborhood.
func (n neighborhood) say(t testing.TB, fd int, frames ...[]byte) {
	t.Helper()
	n.do(func() { say(t, fd, "eth0", frames...) })
}

// say sends frames from a link.
func say(t testing.TB, fd int, link string, frames ...[]byte) {
	t.Helper()
	l, err := net.InterfaceByName(link)
	if err != nil {
		t.Error(err)
		return
	}
	for _, f := range frames {
		if err := unix.Sendto(fd, f, 0, &unix.SockaddrLinklayer{Ifindex: l.Index}); err != nil {
			t.Error(err)
		}
	}
}

// addressed returns a packet in a frame.
func addressed(to, from [6]byte, protocol uint16, packet []byte) []byte {
	b := append(to[:], from[:]...)
	return append(binary.BigEndian.AppendUint16(b, protocol), packet...)
}

// frame returns the next frame for which match is true.
func frame(t testing.TB, fd int, match func([]byte) bool) []byte {
	t.Helper()
	buf := make([]byte, 2048)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.EINTR) { // the kernel does not restart calls with a timeout
			continue
		}
		if err != nil {
			t.Fatalf("no such frame arrived: %v", err)
		}
		if match(buf[:n]) {
			return bytes.Clone(buf[:n])
		}
	}
}
