package rtnetlink

import (
	"errors"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/testing/expect"
)

// loopback is the index that the kernel gives to the first link of a namespace.
const loopback = 1

// newWorld moves the test to its own thread in a new network namespace. The thread ends
// with the test, and the namespace with the thread.
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
}

// ask returns a Conn to the kernel in the test's namespace.
func ask(t testing.TB) *Conn {
	t.Helper()
	c := NewConn(openSocket(t))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func openSocket(t testing.TB) *Socket {
	t.Helper()
	sock, err := Open(unix.NETLINK_ROUTE)
	expect.NoError(t, err)
	return sock
}

// newAddress returns a request to add an address to a link.
func newAddress(link int, p netip.Prefix) *Request {
	return addressRequest(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, link, p)
}

func oldAddress(link int, p netip.Prefix) *Request {
	return addressRequest(unix.RTM_DELADDR, 0, link, p)
}

func addressRequest(kind, flags uint16, link int, p netip.Prefix) *Request {
	req := NewRequest(kind, flags, addressBody(Family(p.Addr()), p.Bits(), link))
	req.Add(unix.IFA_LOCAL, p.Addr().AsSlice())
	return req
}

func addressBody(family uint8, bits, link int) []byte {
	b := make([]byte, unix.SizeofIfAddrmsg)
	b[0], b[1] = family, uint8(bits)
	native.PutUint32(b[4:], uint32(link))
	return b
}

func linkBody(index int) []byte {
	b := make([]byte, unix.SizeofIfInfomsg)
	native.PutUint32(b[4:], uint32(index))
	return b
}

// block returns count addresses, starting with first.
func block(first string, count int) []netip.Prefix {
	a := netip.MustParseAddr(first)
	all := make([]netip.Prefix, count)
	for i := range all {
		all[i] = netip.PrefixFrom(a, a.BitLen())
		a = a.Next()
	}
	return all
}

// put adds prefixes to the loopback link.
func put(t testing.TB, c *Conn, prefixes []netip.Prefix) {
	t.Helper()
	reqs := make([]*Request, len(prefixes))
	for i, p := range prefixes {
		reqs[i] = newAddress(loopback, p)
	}
	expect.NoError(t, errors.Join(c.Batch(t.Context(), reqs)...))
}

// dumpAddresses returns all IPv4 addresses. It tries at most this often.
func dumpAddresses(t testing.TB, c *Conn, tries int) ([]netip.Addr, error) {
	t.Helper()
	req := NewRequest(unix.RTM_GETADDR, 0, addressBody(unix.AF_INET, 0, 0))
	return Dump(t.Context(), c, tries, req, func(body []byte) (netip.Addr, bool, error) {
		a := Address(Attribute(body[unix.SizeofIfAddrmsg:], unix.IFA_LOCAL))
		return a, a.IsValid(), nil
	})
}

// patience is the longest wait in these tests.
const patience = time.Minute

// eventually waits for an effect of another goroutine.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		runtime.Gosched()
	}
}

// errorText returns the text of err, or "" if err is nil.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
