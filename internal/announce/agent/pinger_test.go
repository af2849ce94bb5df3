package agent

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/testing/expect"
)

// pinger sends echo requests to an address repeatedly. It records the requests without an answer.
type pinger struct {
	conn net.PacketConn
	to   *net.IPAddr
	stop chan struct{}

	asking, hearing sync.WaitGroup

	mu       sync.Mutex
	asked    int
	answered map[int]bool
}

// every is the time between two echo requests.
const every = 5 * time.Millisecond

// newPinger starts to send in the namespace of the test.
func newPinger(t *testing.T, address string) *pinger {
	t.Helper()
	return newPingerFrom(t, "192.0.2.254", address)
}

func newPingerFrom(t *testing.T, source, address string) *pinger {
	t.Helper()
	conn, err := net.ListenPacket("ip4:icmp", source)
	expect.NoError(t, err)
	keepAnswers(t, conn.(*net.IPConn))
	c := &pinger{conn: conn, to: &net.IPAddr{IP: net.ParseIP(address)}, stop: make(chan struct{}), answered: map[int]bool{}}
	c.asking.Go(c.ask)
	c.hearing.Go(c.hear)
	return c
}

// keepAnswers enlarges the socket buffer so that it holds the answers of minutes. The test may
// read them late.
func keepAnswers(t *testing.T, conn *net.IPConn) {
	t.Helper()
	raw, err := conn.SyscallConn()
	expect.NoError(t, err)
	var refused error
	err = raw.Control(func(fd uintptr) { refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20) })
	expect.NoError(t, errors.Join(err, refused))
}

func (c *pinger) ask() {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-tick.C:
		}
		c.mu.Lock()
		n := c.asked
		c.asked++
		c.mu.Unlock()
		_, _ = c.conn.WriteTo(echo(n), c.to)
	}
}

// echo returns the n-th ICMP echo request.
func echo(n int) []byte {
	m := []byte{8, 0, 0, 0, 0x50, 0x4c, 0, 0}
	binary.BigEndian.PutUint16(m[6:], uint16(n))
	var sum uint32
	for i := 0; i < len(m); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(m[i:]))
	}
	binary.BigEndian.PutUint16(m[2:], ^uint16(sum+sum>>16))
	return m
}

func (c *pinger) hear() {
	buffer := make([]byte, 1500)
	for {
		n, _, err := c.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		if n >= 8 && buffer[0] == 0 && buffer[4] == 0x50 {
			c.mu.Lock()
			c.answered[int(binary.BigEndian.Uint16(buffer[6:]))] = true
			c.mu.Unlock()
		}
	}
}

// sent returns the number of requests so far.
func (c *pinger) sent() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// again waits until 20 new requests have answers.
func (c *pinger) again(t *testing.T) {
	t.Helper()
	from := c.sent()
	eventually(t, "answers", func() bool { return c.answeredFrom(from) >= 20 })
}

// answeredFrom returns the number of answered requests after the first n.
func (c *pinger) answeredFrom(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	answered := 0
	for ; n < c.asked; n++ {
		if c.answered[n] {
			answered++
		}
	}
	return answered
}

// end waits for the answer to a new request. It returns the number of earlier requests without an
// answer, and the longest series of them as a time.
func (c *pinger) end(t *testing.T) (lost int, gap time.Duration) {
	t.Helper()
	from := c.sent()
	eventually(t, "an answer at the end", func() bool { return c.answeredFrom(from) > 0 })
	close(c.stop)
	c.asking.Wait()
	_ = c.conn.Close()
	c.hearing.Wait()
	for !c.answered[from] {
		from++
	}
	row := 0
	for n := range from {
		if row++; c.answered[n] {
			row = 0
		} else {
			lost++
		}
		gap = max(gap, time.Duration(row)*every)
	}
	return lost, gap
}
