package gossip

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"
)

// real is an agent on the network, on a loopback address of its own.
type real struct {
	*Gossip
	got  chan string
	stop func()
}

// loopback returns an address of this machine that probably nobody else uses.
func loopback() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(250)), byte(rand.IntN(250)), byte(1 + rand.IntN(250))}), uint16(10000+rand.IntN(20000)))
}

func startReal(t *testing.T, node string, bind netip.AddrPort, seeds ...netip.AddrPort) *real {
	t.Helper()
	r := &real{got: make(chan string, 16)}
	g, err := New(Options{
		Node: node, Bind: bind, Keys: [][]byte{testKey}, Log: slog.New(slog.DiscardHandler),
		Seeds:   func(context.Context) ([]netip.AddrPort, error) { return seeds, nil },
		Receive: func(from string, message []byte) { r.got <- from + ": " + string(message) },
	})
	if err != nil {
		t.Fatal(err)
	}
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

// await waits until r sees view.
func (r *real) await(t *testing.T, view string) {
	t.Helper()
	a := &agent{Gossip: r.Gossip}
	limit := time.After(30 * time.Second)
	for a.view() != view {
		select {
		case <-r.Changed():
		case <-limit:
			t.Fatalf("after 30 s %s sees %q, not %q", r.self.node, a.view(), view)
		}
	}
}

func TestAgentsMeetOnTheNetwork(t *testing.T) {
	at := []netip.AddrPort{loopback(), loopback(), loopback()}
	a, b, c := startReal(t, "a", at[0], at...), startReal(t, "b", at[1], at...), startReal(t, "c", at[2], at...)
	for _, r := range []*real{a, b, c} {
		r.await(t, "a alive, b alive, c alive")
	}
	if err := a.Send(t.Context(), "b", []byte("take")); err != nil {
		t.Fatal(err)
	}
	if got := <-b.got; got != "a: take" {
		t.Errorf("received %q", got)
	}
	harass(t, at[0])
	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.stop()
	a.await(t, "a alive, b left, c dead")
	if h := a.Health(); h.BadFormat == 0 || h.BytesIn == 0 || h.PacketsOut == 0 {
		t.Errorf("not counted: %+v", h)
	}
	if err := c.Send(t.Context(), "a", nil); err == nil {
		t.Error("an agent that has ended sends")
	}
	if err := c.Leave(t.Context()); err == nil {
		t.Error("an agent that has ended says goodbye")
	}
}

// harass sends what is no gossip to at, by UDP and TCP.
func harass(t *testing.T, at netip.AddrPort) {
	t.Helper()
	for _, network := range []string{"udp", "tcp"} {
		for _, size := range []int{0, 1, 5, 1232, 1233, 60000} {
			conn, err := net.Dial(network, at.String())
			if err != nil {
				t.Fatal(err)
			}
			junk := make([]byte, size)
			for i := range junk {
				junk[i] = byte(rand.IntN(256))
			}
			_, _ = conn.Write(junk) // it may hang up before the end
			_ = conn.Close()
		}
	}
}

func TestIPv6IsANetworkToo(t *testing.T) {
	port := uint16(10000 + rand.IntN(20000))
	one := netip.AddrPortFrom(netip.IPv6Loopback(), port)
	two := netip.AddrPortFrom(netip.IPv6Loopback(), port+1)
	a, b := startReal(t, "a", one), startReal(t, "b", two, one)
	a.await(t, "a alive, b alive")
	b.await(t, "a alive, b alive")
}

func TestTheNextAgentOfANodeWaitsForThePort(t *testing.T) {
	at, other := loopback(), loopback()
	old := startReal(t, "a", at)
	witness := startReal(t, "b", other, at)
	witness.await(t, "a alive, b alive")
	next := startReal(t, "a", at, other)
	old.stop()
	next.await(t, "a alive, b alive")
	witness.await(t, "a alive, b alive")
	limit := time.After(30 * time.Second)
	for witness.Members()[0].Instance != next.self.instance {
		select {
		case <-witness.Changed():
		case <-limit:
			t.Fatal("after 30 s the old agent still speaks for the node")
		}
	}
}

func TestAnAddressThatIsNotOursIsWaitedForUntilTheEnd(t *testing.T) {
	r := startReal(t, "a", netip.MustParseAddrPort("192.0.2.1:7934"))
	r.stop()
	if m := r.Members(); len(m) != 0 {
		t.Errorf("it sees %v", m)
	}
}

func TestNothingRunsWhenRunHasEnded(t *testing.T) {
	at := []netip.AddrPort{loopback(), loopback()}
	a, b := startReal(t, "a", at[0], at...), startReal(t, "b", at[1], at...)
	a.await(t, "a alive, b alive")
	a.stop()
	b.stop()
	// The library does not tell when it is done.
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	buf := make([]byte, 1<<20)
	for {
		stacks := string(buf[:runtime.Stack(buf, true)])
		if !strings.Contains(stacks, "hashicorp/memberlist.") && !strings.Contains(stacks, "gossip.(*network)") && !strings.Contains(stacks, "gossip.(*sealed)") {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("after 30 s there is still\n%s", stacks)
		}
	}
}

func TestAFloodOfNonsenseCostsNobodyALife(t *testing.T) {
	at := []netip.AddrPort{loopback(), loopback(), loopback()}
	a, b, c := startReal(t, "a", at[0], at...), startReal(t, "b", at[1], at...), startReal(t, "c", at[2], at...)
	for _, r := range []*real{a, b, c} {
		r.await(t, "a alive, b alive, c alive")
	}
	conn, err := net.Dial("udp", at[0].String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	junk := make([]byte, wordSize)
	junk[0] = wordVersion
	const packets, burst = 60_000, 300
	for range packets / burst {
		for range burst {
			_, _ = conn.Write(junk) // what does not fit is lost
		}
		time.Sleep(10 * time.Millisecond) // 30,000 packets in a second
	}
	if h := a.Health(); h.BadKey < packets/2 || h.Losses > 0 {
		t.Errorf("%d of %d packets were looked at, %d peers lost", h.BadKey, packets, h.Losses)
	}
	if h := b.Health(); h.Losses > 0 {
		t.Errorf("another lost %d peers", h.Losses)
	}
	for _, r := range []*real{a, b, c} {
		r.await(t, "a alive, b alive, c alive")
	}
}
