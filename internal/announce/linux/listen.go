package linux

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/announce"
)

const (
	// lookEvery is how often Listen checks on which links to listen.
	lookEvery = time.Second
	// heardRoom is how many packets a reader of Listen may fall behind.
	heardRoom = 64
)

// Listen reports the claims and probes of stations for our addresses, on the links that carry
// these addresses. Another link of this node may be such a station. The channel is closed
// when ctx is done.
//
// mine returns our local addresses and their links. Listen calls it for each packet, so it
// must be fast, and must not use the Stack. Listen notices within a second if mine returns
// a new address or link, or if a link went away and came back.
//
// A slow reader misses packets. If a station keeps claiming an address, a later packet is
// reported.
func (s *Stack) Listen(ctx context.Context, mine func() map[netip.Addr]string) (<-chan announce.Heard, error) {
	l := &listening{stack: s, mine: mine, heard: make(chan announce.Heard, heardRoom)}
	l.listener.hear = l.hear
	if err := l.look(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), s.receiver.remove(&l.listener))
	}
	go l.run(ctx)
	return l.heard, nil
}

// listening is the state of one Listen.
type listening struct {
	stack    *Stack
	mine     func() map[netip.Addr]string
	listener listener
	heard    chan announce.Heard
	names    atomic.Pointer[map[int]string] // of the links, by index
}

// hear passes a packet on if it came on the link that has the address.
func (l *listening) hear(w said) {
	name := (*l.names.Load())[w.link]
	if name == "" || l.mine()[w.addr] != name {
		return
	}
	select {
	case l.heard <- announce.Heard{Link: name, Addr: w.addr, MAC: w.mac, Probe: w.probe, At: time.Now()}:
	default:
	}
}

func (l *listening) run(ctx context.Context) {
	defer close(l.heard)
	again := time.NewTicker(lookEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			if err := l.stack.receiver.remove(&l.listener); err != nil {
				l.stack.log.DebugContext(ctx, "end of listening", "error", err)
			}
			return
		case <-again.C:
			if err := l.look(ctx); err != nil && ctx.Err() == nil {
				l.stack.log.WarnContext(ctx, "listening on the wire", "error", err)
			}
		}
	}
}

// look reads on which links our addresses are, and listens there.
func (l *listening) look(ctx context.Context) error {
	var scope [2]scope
	links, names := map[string]link{}, map[int]string{}
	for addr, name := range l.mine() {
		at, known := links[name]
		if !known {
			var err error
			if at, err = l.stack.link(ctx, name); err != nil && !errors.Is(err, unix.ENODEV) {
				return fmt.Errorf("read link %s: %w", name, err)
			}
			links[name] = at
		}
		if at.hasNeighbors() { // a link that is gone has none
			names[at.Index] = name
			scope[familyIndex(addr)].add(at.Index, numberOf(addr))
		}
	}
	return l.move(scope, names)
}

// move receives the packets in scope, unless it already does.
func (l *listening) move(scope [2]scope, names map[int]string) error {
	same := true
	for family, now := range scope {
		slices.Sort(now.links)
		same = same && slices.Equal(now.links, l.listener.scope[family].links) && now.about == l.listener.scope[family].about
	}
	l.names.Store(&names)
	if same && !slices.ContainsFunc(l.stack.receiver.sockets, (*packetSocket).lost) {
		return nil
	}
	return l.stack.receiver.add(&l.listener, scope)
}

// familyIndex returns the index of the socket for packets about addr.
func familyIndex(addr netip.Addr) int {
	if addr.Is4() {
		return indexIPv4
	}
	return indexIPv6
}
