package rtnetlink

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/testing/expect"
)

// interrupter changes the table after the first part of a dump was read. The kernel makes each part
// only when it is read, and 2000 addresses need several parts.
type interrupter struct {
	Transport
	change func()
}

func (m *interrupter) Receive(buf []byte) (int, error) {
	n, err := m.Transport.Receive(buf)
	m.change()
	m.change = func() {}
	return n, err
}

// The kernel has already sent more entries than remain. So no entry follows, and only the last
// message has the flag.
func TestARemovalOfMostEntriesInterruptsADump(t *testing.T) {
	newWorld(t)
	other := ask(t)
	put(t, other, block("198.18.0.1", 2000))
	c := NewConn(&interrupter{openSocket(t), func() {
		var reqs []*Request
		for _, p := range block("198.18.0.1", 1900) {
			reqs = append(reqs, oldAddress(loopback, p))
		}
		expect.NoError(t, errors.Join(other.Batch(t.Context(), reqs)...))
	}})
	t.Cleanup(func() { _ = c.Close() })
	if got, err := dumpAddresses(t, c, 1); got != nil || !errors.Is(err, ErrInterrupted) {
		t.Errorf("%d addresses, %v", len(got), err)
	}
	// The socket is ready for the next dump, which nothing interrupts.
	if got, err := dumpAddresses(t, c, 1); len(got) != 100 || err != nil {
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
