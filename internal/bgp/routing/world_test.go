package routing

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/bgptest"
)

// space is the network namespace of a node.
type space struct{ *bgptest.Namespace }

func newSpace(t testing.TB) space { return space{bgptest.NewHost(t)} }

// begin runs f in the namespace until the test ends.
func (s space) begin(t testing.TB, f func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { s.Do(func() { f(ctx) }) })
	t.Cleanup(func() {
		cancel()
		ended.Wait()
	})
}

// batch runs all of lines in one process of iproute2.
func (s space) batch(t testing.TB, lines []string) {
	t.Helper()
	var out strings.Builder
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(strings.Join(lines, "\n")), &out, &out
	err := s.Start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		t.Fatalf("ip -batch: %v\n%s", err, out.String())
	}
}

// kernel opens the routing of the namespace.
func (s space) kernel(t testing.TB) (k *Kernel) {
	t.Helper()
	s.Do(func() {
		var err error
		if k, err = New(slog.New(slog.DiscardHandler)); err != nil {
			t.Error(err)
		}
	})
	if k == nil {
		t.FailNow()
	}
	t.Cleanup(func() { _ = k.Close() })
	return k
}

// connect joins two spaces by a link. The link has the name here in s and the name there in other.
func (s space) connect(t testing.TB, other space, here, there string) {
	t.Helper()
	s.IP(fmt.Sprintf(`link add %s type veth peer name %s netns %s
		link set %[1]s up`, here, there, other.Path()))
	other.IP("link set " + there + " up")
	s.isUp(t, here)
	other.isUp(t, there)
}

// isUp waits until a link carries packets. A carrier is not enough: the kernel gives the link its
// queue a moment later, and drops packets before that.
func (s space) isUp(t testing.TB, link string) {
	t.Helper()
	eventually(t, link+" is up", func() bool { return strings.Contains(s.IP("link show "+link), "state UP") })
}

// served waits until the kernel has the local routes of these IPv6 addresses on a link. Before that,
// it may not answer for them. These routes are the last thing that the kernel adds for an address.
func (s space) served(t testing.TB, link string, addresses ...string) {
	t.Helper()
	for _, a := range addresses {
		eventually(t, a+" is served on "+link, func() bool {
			return strings.Contains(s.IP("-6 route show table local dev "+link), "local "+a)
		})
	}
}

// linkLocal waits until a link has its link-local address, and returns that address.
func (s space) linkLocal(t testing.TB, link string) netip.Addr {
	t.Helper()
	var found netip.Addr
	eventually(t, link+" has a link-local address", func() bool {
		out := s.IP("-6 addr show dev " + link + " scope link -tentative")
		_, after, ok := strings.Cut(out, "inet6 ")
		if ok {
			text, _, _ := strings.Cut(after, "/")
			found = netip.MustParseAddr(text)
		}
		return ok
	})
	return found
}

// eventually waits for an effect in the kernel.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	if !bgptest.Eventually(is) {
		t.Fatalf("this does not happen within %v: %s", bgptest.Patience, what)
	}
}

// listener records the calls of Import and the resulting state.
type listener struct {
	mu    sync.Mutex
	calls int
	held  map[peering.Imported]bool
	wrong []string
	// A test holds gate to make Import wait in change.
	gate sync.Mutex
}

// listen starts Import in the namespace.
func (s space) listen(t testing.TB, k *Kernel, patterns ...string) *listener {
	t.Helper()
	l := newListener()
	s.begin(t, func(ctx context.Context) {
		if err := k.Import(ctx, patterns, l.change); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the first list", func() bool { return l.count() > 0 })
	return l
}

func newListener() *listener { return &listener{held: make(map[peering.Imported]bool)} }

func (l *listener) change(come, gone []peering.Imported) {
	l.gate.Lock()
	defer l.gate.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	for _, i := range gone {
		if !l.held[i] {
			l.wrong = append(l.wrong, fmt.Sprintf("%v is removed and was not imported", i))
		}
		delete(l.held, i)
	}
	for _, i := range come {
		if l.held[i] {
			l.wrong = append(l.wrong, fmt.Sprintf("%v is added twice", i))
		}
		l.held[i] = true
	}
}

func (l *listener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

func (l *listener) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held)
}

func (l *listener) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	for i := range l.held {
		line := i.Address.String() + " " + i.Interface
		if i.Service {
			line += " service"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(append(lines, l.wrong...), ", ")
}

// expect waits until exactly these addresses are imported.
func (l *listener) expect(t testing.TB, want string) {
	t.Helper()
	bgptest.Await(t, "the imported addresses", want, l.text)
}

// block returns count addresses, starting with first.
func block(first string, count int) []netip.Prefix {
	a := netip.MustParseAddr(first)
	var all []netip.Prefix
	for range count {
		all = append(all, netip.PrefixFrom(a, a.BitLen()))
		a = a.Next()
	}
	return all
}

// lines returns a command for each prefix.
func lines(format string, prefixes []netip.Prefix) []string {
	var all []string
	for _, p := range prefixes {
		all = append(all, fmt.Sprintf(format, p))
	}
	return all
}

// equal compares got with want.
func equal(t testing.TB, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("the values differ (-want +got):\n%s", diff)
	}
}
