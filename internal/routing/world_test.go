package routing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/peering"
)

// space is a network namespace with its own thread.
type space struct {
	thread chan func()
	path   string
}

// newSpace makes a network namespace that ends with the test.
func newSpace(t testing.TB) space {
	t.Helper()
	s := space{thread: make(chan func())}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread dies with the test
		err := unix.Unshare(unix.CLONE_NEWNET)
		s.path = fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
		made <- err
		for f := range s.thread {
			f()
		}
	}()
	err := <-made
	if errors.Is(err, unix.EPERM) {
		t.Fatal("these tests make network namespaces: run them as root")
	}
	if err != nil {
		t.Fatalf("make a network namespace: %v", err)
	}
	t.Cleanup(func() { close(s.thread) })
	s.ip(t, "link set lo up")
	return s
}

// do runs f in the namespace.
func (s space) do(f func()) {
	done := make(chan struct{})
	s.thread <- func() {
		defer close(done)
		f()
	}
	<-done
}

// begin runs f in the namespace on another thread until the test ends.
func (s space) begin(t testing.TB, f func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked
		there, err := os.Open(s.path)
		if err != nil {
			t.Error(err)
			return
		}
		defer there.Close()
		if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			return
		}
		f(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// ip runs iproute2 in the namespace, once per line of script.
func (s space) ip(t testing.TB, script string) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(script) {
		if args := strings.Fields(line); len(args) > 0 {
			b, err := s.command("", append([]string{"ip"}, args...)...)
			if err != nil {
				t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, b)
			}
			out.WriteString(b)
		}
	}
	return out.String()
}

// batch runs all of lines in one process of iproute2.
func (s space) batch(t testing.TB, lines []string) {
	t.Helper()
	if out, err := s.command(strings.Join(lines, "\n"), "ip", "-batch", "-"); err != nil {
		t.Fatalf("ip -batch: %v\n%s", err, out)
	}
}

func (s space) command(input string, args ...string) (out string, err error) {
	s.do(func() {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stdin = strings.NewReader(input)
		var b []byte
		b, err = cmd.CombinedOutput()
		out = string(b)
	})
	return out, err
}

func (s space) sysctl(t testing.TB, name, value string) {
	t.Helper()
	s.do(func() {
		path := "/proc/sys/net/" + strings.ReplaceAll(name, ".", "/")
		if err := os.WriteFile(path, []byte(value), 0); err != nil {
			t.Error(err)
		}
	})
}

// kernel opens the routing of the namespace.
func (s space) kernel(t testing.TB) (k *Kernel) {
	t.Helper()
	s.do(func() {
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
	s.ip(t, fmt.Sprintf(`link add %s type veth peer name %s netns %s
		link set %[1]s up`, here, there, other.path))
	other.ip(t, "link set "+there+" up")
	s.isUp(t, here)
	other.isUp(t, there)
}

// isUp waits until a link carries packets. A carrier is not enough: the kernel gives the link its
// queue a moment later, and drops packets before that.
func (s space) isUp(t testing.TB, link string) {
	t.Helper()
	eventually(t, link+" is up", func() bool { return strings.Contains(s.ip(t, "link show "+link), "state UP") })
}

// served waits until the kernel has the local routes of these IPv6 addresses on a link. Before that,
// it may not answer for them. These routes are the last thing that the kernel adds for an address.
func (s space) served(t testing.TB, link string, addresses ...string) {
	t.Helper()
	for _, a := range addresses {
		eventually(t, a+" is served on "+link, func() bool {
			return strings.Contains(s.ip(t, "-6 route show table local dev "+link), "local "+a)
		})
	}
}

// linkLocal waits until a link has its link-local address, and returns that address.
func (s space) linkLocal(t testing.TB, link string) netip.Addr {
	t.Helper()
	var found netip.Addr
	eventually(t, link+" has a link-local address", func() bool {
		out := s.ip(t, "-6 addr show dev "+link+" scope link -tentative")
		_, after, ok := strings.Cut(out, "inet6 ")
		if ok {
			text, _, _ := strings.Cut(after, "/")
			found = netip.MustParseAddr(text)
		}
		return ok
	})
	return found
}

// patient is the time limit of all waits in these tests.
const patient = time.Minute

// eventually waits for an effect in the kernel.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patient); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("this does not happen within %v: %s", patient, what)
		}
		time.Sleep(5 * time.Millisecond)
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
	for deadline := time.Now().Add(patient); l.text() != want; {
		if time.Now().After(deadline) {
			t.Fatalf("the imported addresses (-want +got):\n%s", cmp.Diff(want, l.text()))
		}
		time.Sleep(2 * time.Millisecond)
	}
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
