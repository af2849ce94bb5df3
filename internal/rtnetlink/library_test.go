package rtnetlink

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// interruptions are changes to a table of 2000 addresses, made after the first part of a dump was
// read. The kernel resumes a dump by counting entries.
var interruptions = []struct {
	name   string
	change func(testing.TB, *Conn)
}{
	{"an address comes", func(t testing.TB, c *Conn) { put(t, c, block("192.0.2.1", 1)) }},
	// The kernel has already sent more entries than remain. So no entry follows, and only the last
	// message has the flag.
	{"the first 1900 are removed", func(t testing.TB, c *Conn) { take(t, c, block("198.18.0.1", 1900)) }},
}

// take removes prefixes from the loopback link.
func take(t testing.TB, c *Conn, prefixes []netip.Prefix) {
	t.Helper()
	reqs := make([]*Request, len(prefixes))
	for i, p := range prefixes {
		reqs[i] = oldAddress(loopback, p)
	}
	if err := errors.Join(c.Batch(t.Context(), reqs)...); err != nil {
		t.Fatal(err)
	}
}

func TestEachInterruptionIsNoticed(t *testing.T) {
	for _, tt := range interruptions {
		t.Run(tt.name, func(t *testing.T) {
			newWorld(t)
			other := ask(t)
			put(t, other, block("198.18.0.1", 2000))
			wire := &interrupter{Transport: openSocket(t), times: 1, change: func(int) { tt.change(t, other) }}
			c := NewConn(wire)
			t.Cleanup(func() { _ = c.Close() })
			if got, err := dumpAddresses(t, c, 1); got != nil || !errors.Is(err, ErrInterrupted) {
				t.Errorf("%d addresses, %v", len(got), err)
			}
		})
	}
}

// The tests of the libraries prove the claims in the package comment. If one fails, a library has
// improved, and the comparison must be repeated.
func TestTheLibraryNoticesInterruptionsToo(t *testing.T) {
	for _, tt := range interruptions {
		t.Run(tt.name, func(t *testing.T) {
			newWorld(t)
			other := ask(t)
			put(t, other, block("198.18.0.1", 2000))
			req := nl.NewNetlinkRequest(unix.RTM_GETADDR, unix.NLM_F_DUMP)
			req.AddData(nl.NewIfAddrmsg(unix.AF_INET))
			n := 0
			err := req.ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWADDR, func([]byte) bool {
				if n++; n == 1 { // read only the first part
					tt.change(t, other)
				}
				return true
			})
			if !errors.Is(err, netlink.ErrDumpInterrupted) {
				t.Errorf("%d addresses, %v", n, err)
			}
		})
	}
}

func TestTheLibraryLosesTheMarkOfAnAddress(t *testing.T) {
	newWorld(t)
	c := ask(t)
	const ifaProto, mark = 11, 80
	req := newAddress(loopback, block("192.0.2.1", 1)[0])
	req.Add(ifaProto, []byte{mark})
	if err := c.Do(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	all, err := netlink.AddrList(nil, netlink.FAMILY_V4)
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	if err := netlink.AddrReplace(loopbackLink(t), &all[0]); err != nil {
		t.Fatal(err)
	}
	marks, err := Dump(t.Context(), c, 3, NewRequest(unix.RTM_GETADDR, 0, addressBody(unix.AF_INET, 0, 0)), func(body []byte) ([]byte, bool, error) {
		return Attribute(body[unix.SizeofIfAddrmsg:], ifaProto), true, nil
	})
	if err != nil || len(marks) != 1 || len(marks[0]) > 0 {
		t.Errorf("after the library writes the address again, the mark is %v, %v", marks, err)
	}
}

func loopbackLink(t testing.TB) netlink.Link {
	t.Helper()
	l, err := netlink.LinkByIndex(loopback)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The subscriber does not read a flood of messages in time.
func TestTheLibrarySubscriptionEndsOnALoss(t *testing.T) {
	newWorld(t)
	c := ask(t)
	updates, done := make(chan netlink.AddrUpdate), make(chan struct{})
	failed := make(chan error, 1)
	err := netlink.AddrSubscribeWithOptions(updates, done, netlink.AddrSubscribeOptions{
		ReceiveBufferSize: 4096, ErrorCallback: func(err error) {
			select {
			case failed <- err:
			default:
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer close(done)
	put(t, c, block("198.18.0.1", 2000))
	n := 0
	for range updates {
		n++
	}
	if n == 2000 {
		t.Error("no message was lost")
	}
	select {
	case err := <-failed:
		if errors.Is(err, unix.ENOBUFS) {
			t.Errorf("the error of the end is %v, which a program can recognize", err)
		}
	default:
		t.Errorf("the subscription ended after %d messages without an error", n)
	}
}

func BenchmarkDump(b *testing.B) {
	for _, n := range []int{20, 2000, 20000} {
		newWorld(b)
		c := ask(b)
		put(b, c, block("198.18.0.1", n))
		b.Run(fmt.Sprintf("ours/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got, err := dumpAddresses(b, c, 1); len(got) != n || err != nil {
					b.Fatal(len(got), err)
				}
			}
		})
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("library/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got, err := h.AddrList(nil, netlink.FAMILY_V4); len(got) != n || err != nil {
					b.Fatal(len(got), err)
				}
			}
		})
		h.Close()
	}
}

func BenchmarkPut(b *testing.B) {
	const n = 1000
	prefixes := block("198.18.0.1", n)
	newWorld(b)
	c := ask(b)
	b.Run("ours", func(b *testing.B) {
		for b.Loop() {
			put(b, c, prefixes)
			b.StopTimer()
			take(b, c, prefixes)
			b.StartTimer()
		}
	})
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	link := loopbackLink(b)
	b.Run("library", func(b *testing.B) {
		for b.Loop() {
			for _, p := range prefixes {
				a, _ := netlink.ParseAddr(p.String())
				if err := h.AddrAdd(link, a); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			take(b, c, prefixes)
			b.StartTimer()
		}
	})
}
