package gossip

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"purelb.io/purelb/internal/testing/expect"
)

// real is an agent with its own loopback address on the real network.
type real struct {
	*Gossip
	got  chan string
	stop func()
}

// loopback returns an address of this machine that probably no other test uses.
func loopback() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(250)), byte(rand.IntN(250)), byte(1 + rand.IntN(250))}), uint16(10000+rand.IntN(20000)))
}

// unused returns a port of [::1] on which no socket listens. The port is below the range of the
// ports that the kernel chooses for connections.
func unused(t *testing.T) netip.AddrPort {
	t.Helper()
	for {
		at := netip.AddrPortFrom(netip.IPv6Loopback(), uint16(10000+rand.IntN(20000)))
		n, err := listen(at, &Health{})
		if err == nil {
			expect.NoError(t, n.close())
			return at
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}

// patiently is the Timing for a machine that may pause for seconds. With it, such a node is not
// dead, and Leave waits for the other nodes.
var patiently = Timing{Refutation: 5 * time.Second, Stream: 20 * time.Second}

func startReal(t *testing.T, node string, bind netip.AddrPort, seeds ...netip.AddrPort) *real {
	t.Helper()
	r := &real{got: make(chan string, 10000)}
	g, err := New(Options{
		Changed: make(chan struct{}, 1),
		Node:    node, Bind: bind, Keys: [][]byte{testKey}, Log: slog.New(slog.DiscardHandler), Timing: patiently,
		Seeds:   func(context.Context) []netip.AddrPort { return seeds },
		Receive: func(from string, message []byte) { r.got <- from + ": " + string(message) },
	})
	expect.NoError(t, err)
	r.Gossip = g
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	r.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		ended <- nil
	}
	t.Cleanup(r.stop)
	return r
}

// await waits until r has this view.
func (r *real) await(t *testing.T, view string) {
	t.Helper()
	a := &agent{Gossip: r.Gossip}
	limit := time.After(time.Minute)
	for a.view() != view {
		select {
		case <-r.opt.Changed:
		case <-limit:
			t.Fatalf("after a minute %s sees %q, not %q", r.self.node, a.view(), view)
		}
	}
}

func TestAgentsMeetOnTheNetwork(t *testing.T) {
	at := []netip.AddrPort{loopback(), loopback(), loopback()}
	a, b, c := startReal(t, "a", at[0], at...), startReal(t, "b", at[1], at...), startReal(t, "c", at[2], at...)
	for _, r := range []*real{a, b, c} {
		r.await(t, "a alive, b alive, c alive")
	}
	expect.Equal(t, "received", tell(t, a, b, "take"), "a: take")
	sendInvalid(t, at[0])
	expect.NoError(t, b.Leave(t.Context()))
	c.stop()
	a.await(t, "a alive, b left, c dead")
	eventually(t, "invalid packets are counted", func() bool { return a.Health().BadFormat.Load() > 0 })
	if h := a.Health(); h.BytesIn.Load() == 0 || h.PacketsOut.Load() == 0 {
		t.Errorf("the counters of invalid packets and streams are %+v", h)
	}
	if err := c.Send(t.Context(), "a", nil); err == nil {
		t.Error("an agent that has ended sends a message")
	}
	if err := c.Leave(t.Context()); err == nil {
		t.Error("an agent that has ended can leave")
	}
}

// tell returns the first message of from that to receives. It repeats the message until one
// arrives, because to drops a message that arrives during a pause.
func tell(t *testing.T, from, to *real, message string) (got string) {
	t.Helper()
	eventually(t, "a message is received", func() bool {
		expect.NoError(t, from.Send(t.Context(), to.self.node, []byte(message)))
		select {
		case got = <-to.got:
			return true
		default:
			return false
		}
	})
	return got
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for !is() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("this does not happen within a minute: %s", what)
		}
	}
}

// sendInvalid sends bytes that are not gossip by UDP and TCP.
func sendInvalid(t *testing.T, at netip.AddrPort) {
	t.Helper()
	for _, network := range []string{"udp", "tcp"} {
		for _, size := range []int{0, 1, 5, 1232, 1233, 60000} {
			conn, err := net.Dial(network, at.String())
			expect.NoError(t, err)
			junk := make([]byte, size)
			for i := range junk {
				junk[i] = byte(rand.IntN(256))
			}
			_, _ = conn.Write(junk) // the receiver may close the connection early
			_ = conn.Close()
		}
	}
}

func TestAgentsMeetOnIPv6(t *testing.T) {
	one, two := unused(t), unused(t)
	a, b := startReal(t, "a", one), startReal(t, "b", two, one)
	a.await(t, "a alive, b alive")
	b.await(t, "a alive, b alive")
}

func TestTheNextAgentWaitsForThePort(t *testing.T) {
	at, other := loopback(), loopback()
	old := startReal(t, "a", at)
	witness := startReal(t, "b", other, at)
	witness.await(t, "a alive, b alive")
	next := startReal(t, "a", at, other)
	old.stop()
	next.await(t, "a alive, b alive")
	witness.await(t, "a alive, b alive")
	limit := time.After(time.Minute)
	for witness.Members()[0].Instance != next.self.instance {
		select {
		case <-witness.opt.Changed:
		case <-limit:
			t.Fatal("after a minute the old agent still represents the node")
		}
	}
}

func TestRunWaitsForItsAddressUntilTheEnd(t *testing.T) {
	r := startReal(t, "a", netip.MustParseAddrPort("192.0.2.1:7934"))
	r.stop()
	if m := r.Members(); len(m) != 0 {
		t.Errorf("an agent without its address has the members %v", m)
	}
}

func TestNothingRunsWhenRunHasEnded(t *testing.T) {
	at := []netip.AddrPort{loopback(), loopback()}
	a, b := startReal(t, "a", at[0], at...), startReal(t, "b", at[1], at...)
	a.await(t, "a alive, b alive")
	a.stop()
	b.stop()
	// The library does not report the end of its goroutines.
	buf := make([]byte, 1<<20)
	eventually(t, "nothing runs", func() bool {
		stacks := string(buf[:runtime.Stack(buf, true)])
		return !strings.Contains(stacks, "hashicorp/memberlist.") && !strings.Contains(stacks, "gossip.(*network)") && !strings.Contains(stacks, "gossip.(*sealed)")
	})
}

// flood is the number of packets between two polls at 30,000 packets per second.
const flood = 1920

// The default buffer of the kernel has room for less than 300 of them.
func TestTheKernelKeepsAFloodUntilTheNextPoll(t *testing.T) {
	at := loopback()
	n, err := listen(at, &Health{})
	expect.NoError(t, err)
	t.Cleanup(func() { _ = n.close() })
	conn, err := net.Dial("udp", at.String())
	expect.NoError(t, err)
	defer func() { _ = conn.Close() }()
	for i := range flood {
		_, _ = conn.Write(make([]byte, heartbeatSize)) // a packet that does not fit is lost
		if i%300 == 0 {
			time.Sleep(10 * time.Millisecond) // the queue to a port on loopback is short
		}
	}
	kept := 0
	n.poll(func([]byte, netip.AddrPort) { kept++ })
	if kept < flood/2 {
		t.Errorf("the kernel kept %d of %d packets", kept, flood)
	}
}
