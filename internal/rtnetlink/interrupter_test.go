package rtnetlink

import (
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/testing/expect"
)

// interrupter changes the table after the first part of a dump was read. The kernel makes each part
// only when it is read, and 2000 addresses need several parts.
type interrupter struct {
	Transport
	dumps, times int
	change       func(dump int)
	begun        bool
}

func (m *interrupter) Send(msg []byte) error {
	m.dumps++
	m.begun = true
	return m.Transport.Send(msg)
}

func (m *interrupter) Receive(buf []byte) (int, error) {
	n, err := m.Transport.Receive(buf)
	if m.begun && m.dumps <= m.times {
		m.change(m.dumps)
	}
	m.begun = false
	return n, err
}

// The kernel has already sent more entries than remain. So no entry follows, and only the last
// message has the flag.
func TestARemovalOfMostEntriesInterruptsADump(t *testing.T) {
	newWorld(t)
	c, wire := newInterrupter(t, 1)
	other, removed := ask(t), block("198.18.0.1", 1900)
	wire.change = func(int) {
		reqs := make([]*Request, len(removed))
		for i, p := range removed {
			reqs[i] = oldAddress(loopback, p)
		}
		expect.NoError(t, errors.Join(other.Batch(t.Context(), reqs)...))
	}
	if got, err := dumpAddresses(t, c, 1); got != nil || !errors.Is(err, ErrInterrupted) {
		t.Errorf("%d addresses, %v", len(got), err)
	}
}

// newInterrupter returns a table of 2000 addresses. Each of its first dumps is interrupted by a new
// address.
func newInterrupter(t *testing.T, times int) (c *Conn, wire *interrupter) {
	t.Helper()
	other := ask(t)
	put(t, other, block("198.18.0.1", 2000))
	wire = &interrupter{Transport: openSocket(t), times: times}
	wire.change = func(dump int) { put(t, other, block("192.0.2.1", dump)[dump-1:]) }
	c = NewConn(wire)
	t.Cleanup(func() { _ = c.Close() })
	return c, wire
}

func TestAnInterruptedDumpIsRepeated(t *testing.T) {
	newWorld(t)
	c, wire := newInterrupter(t, 2)
	got, err := dumpAddresses(t, c, 3)
	if err != nil || wire.dumps != 3 {
		t.Fatalf("after %d dumps: %v", wire.dumps, err)
	}
	seen := make(map[netip.Addr]bool)
	for _, a := range got {
		seen[a] = true
	}
	for _, p := range append(block("198.18.0.1", 2000), block("192.0.2.1", 2)...) {
		if !seen[p.Addr()] {
			t.Errorf("%s is missing", p.Addr())
		}
	}
	expect.Equal(t, "addresses", len(got), 2002)
}

func TestATableThatKeepsChangingIsAnError(t *testing.T) {
	newWorld(t)
	c, wire := newInterrupter(t, 3)
	got, err := dumpAddresses(t, c, 3)
	if got != nil || !errors.Is(err, ErrInterrupted) || wire.dumps != 3 {
		t.Errorf("%d addresses after %d dumps: %v", len(got), wire.dumps, err)
	}
	// The socket is ready for the next dump, which nothing interrupts.
	if got, err := dumpAddresses(t, c, 1); len(got) != 2003 || err != nil {
		t.Errorf("then %d addresses: %v", len(got), err)
	}
}

func TestTruncatedDumpIsAnError(t *testing.T) {
	newWorld(t)
	c := ask(t)
	put(t, c, block("198.18.0.1", 2000))
	c.inbox = c.inbox[:1024] // less than the kernel fills
	if got, err := dumpAddresses(t, c, 3); got != nil || !errors.Is(err, unix.EMSGSIZE) {
		t.Errorf("%d addresses: %v", len(got), err)
	}
}

func TestARefusedDumpIsAnErrorWithTheReason(t *testing.T) {
	newWorld(t)
	c := ask(t)
	req := NewRequest(unix.RTM_GETADDR, 0, addressBody(unix.AF_INET, 24, 0)) // a request for a table must not have a prefix length
	_, err := Dump(t.Context(), c, 1, req, parseName)
	if want := "ipv4: Invalid values in header for address dump request (invalid argument)"; !errors.Is(err, unix.EINVAL) || errorText(err) != want {
		t.Errorf("got %q, want %q", errorText(err), want)
	}
	if got, err := dumpAddresses(t, c, 1); len(got) != 0 || err != nil {
		t.Errorf("then %v, %v", got, err)
	}
}
