package bgptest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// Namespace is a network namespace.
type Namespace struct {
	t    testing.TB
	file *os.File
}

// The first thread shows what the namespace of the process is, to /proc/self too,
// so it is kept from moving into another: only the main goroutine, which calls
// the tests, runs on it.
func init() { runtime.LockOSThread() }

// Here is the namespace of this process.
func Here(t testing.TB) *Namespace {
	t.Helper()
	f, err := os.Open("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return &Namespace{t: t, file: f}
}

// NewNamespace makes that of a router: lo is up, and forwarding is on. It is gone after the test.
func NewNamespace(t testing.TB) *Namespace {
	t.Helper()
	n := NewHost(t)
	n.Sysctl("net.ipv4.ip_forward", "1")
	n.Sysctl("net.ipv6.conf.all.forwarding", "1")
	return n
}

// NewHost makes a namespace that forwards nothing.
func NewHost(t testing.TB) *Namespace {
	t.Helper()
	made := make(chan *os.File)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is spoilt for others
		defer close(made)
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Errorf("make a network namespace (run these tests as root): %v", err)
			return
		}
		f, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			t.Errorf("open the namespace: %v", err)
			return
		}
		made <- f
	}()
	f := <-made
	if f == nil {
		t.FailNow()
	}
	t.Cleanup(func() { _ = f.Close() })
	n := &Namespace{t: t, file: f}
	n.IP("link set lo up")
	return n
}

// Path is the file of n.
func (n *Namespace) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.file.Fd()) }

// Do calls f on a thread that is in n. Sockets that f opens and processes that
// it starts are in n for good; goroutines that it starts are not.
func (n *Namespace) Do(f func()) {
	n.t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			done <- err
			return
		}
		defer home.Close()
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		f()
		// A thread that cannot come home dies with this goroutine.
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		done <- nil
	}()
	if err := <-done; err != nil {
		n.t.Fatalf("enter a network namespace: %v", err)
	}
}

// Start starts cmd in n.
func (n *Namespace) Start(cmd *exec.Cmd) error {
	var err error
	n.Do(func() { err = cmd.Start() })
	return err
}

// Run runs a program in n to its end and returns what it says.
func (n *Namespace) Run(name string, args ...string) (string, error) {
	return n.output(exec.Command(name, args...))
}

func (n *Namespace) output(cmd *exec.Cmd) (string, error) {
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := n.Start(cmd); err != nil {
		return "", err
	}
	err := cmd.Wait()
	return out.String(), err
}

// IP runs iproute2's command in n, once per line of script, and returns what it
// says.
func (n *Namespace) IP(script string) string {
	n.t.Helper()
	var all strings.Builder
	for line := range strings.Lines(script) {
		args := strings.Fields(line)
		if len(args) == 0 {
			continue
		}
		out, err := n.Run("ip", args...)
		if err != nil {
			n.t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		all.WriteString(out)
	}
	return all.String()
}

// Address gives the interface link of n an address such as 192.0.2.1/24, which can
// be used at once. The kernel delivers to an IPv6 address, and answers for it, only
// after a worker of it has made the local route.
func (n *Namespace) Address(link, prefix string) {
	n.t.Helper()
	address, _, _ := strings.Cut(prefix, "/")
	if !strings.Contains(address, ":") {
		n.IP(fmt.Sprintf("address add %s dev %s", prefix, link))
		return
	}
	n.IP(fmt.Sprintf("address add %s dev %s nodad", prefix, link))
	n.used(link, "local "+address+" ")
}

// used waits until the kernel has the local route of an IPv6 address of link that
// begins like this.
func (n *Namespace) used(link, route string) {
	n.t.Helper()
	if !Eventually(func() bool { return strings.Contains(n.IP("-6 route show table local dev "+link), route) }) {
		n.t.Fatalf("%s on %s cannot be used", route, link)
	}
}

// Sysctl sets a kernel variable of n.
func (n *Namespace) Sysctl(name, value string) {
	n.t.Helper()
	var err error
	n.Do(func() {
		err = os.WriteFile("/proc/sys/"+strings.ReplaceAll(name, ".", "/"), []byte(value), 0)
	})
	if err != nil {
		n.t.Fatalf("set %s: %v", name, err)
	}
}

// Segment is a wire that any number of namespaces are on.
type Segment struct {
	t      testing.TB
	bridge *Namespace
	ports  atomic.Int32
}

// NewSegment makes a wire with nobody on it.
func NewSegment(t testing.TB) *Segment {
	t.Helper()
	s := &Segment{t: t, bridge: NewNamespace(t)}
	s.bridge.IP("link add wire type bridge mcast_snooping 0\nlink set wire up")
	return s
}

// Join puts n on the wire: it gets the interface link with addresses such as
// 192.0.2.1/24, which can be used at once. It leaves with the test.
func (s *Segment) Join(n *Namespace, link string, addresses ...string) *Port {
	s.t.Helper()
	p := &Port{segment: s, name: fmt.Sprintf("p%d", s.ports.Add(1)), namespace: n, link: link}
	n.IP(fmt.Sprintf("link add %s type veth peer name %s", link, p.name))
	s.t.Cleanup(func() {
		// It may have been deleted by the test.
		_, _ = n.Run("ip", "link", "del", link)
	})
	// The other end is handed over by descriptor: namespaces have no names here.
	s.adopt(n, p.name)
	s.bridge.IP(fmt.Sprintf("link set %[1]s master wire\nlink set %[1]s up", p.name))
	// Link-local addresses too can be used at once: routers wait for theirs.
	n.Sysctl("net.ipv6.conf."+link+".accept_dad", "0")
	n.IP(fmt.Sprintf("link set %s up", link))
	n.used(link, "local fe80::")
	for _, a := range addresses {
		n.Address(link, a)
	}
	return p
}

// adopt moves an interface of n to the wire's own namespace.
func (s *Segment) adopt(n *Namespace, port string) {
	s.t.Helper()
	cmd := exec.Command("ip", "link", "set", port, "netns", "/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{s.bridge.file}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := n.Start(cmd); err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		s.t.Fatalf("put %s on the wire: %v\n%s", port, err, out.String())
	}
}

// Port is where a namespace is on a wire.
type Port struct {
	segment   *Segment
	namespace *Namespace
	name      string
	link      string
}

// Cut makes the wire deaf to the port: nothing passes, and both sides keep
// seeing their links up, as behind a switch.
func (p *Port) Cut() {
	p.segment.t.Helper()
	p.segment.bridge.IP("link set " + p.name + " nomaster")
}

// Mend undoes Cut.
func (p *Port) Mend() {
	p.segment.t.Helper()
	p.segment.bridge.IP("link set " + p.name + " master wire")
}
