package linux

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
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

// Listen reports the claims and probes of other stations for our addresses, on the links
// that carry these addresses. It ignores packets from other links of this node. The channel
// is closed when ctx is done.
//
// mine returns our local addresses and their links. Listen calls it for each packet, so it
// must be fast, and must not use the Stack. Listen notices within a second if mine returns
// a new address or link, or if a link went away and came back.
//
// A slow reader misses packets. If a station keeps claiming an address, a later packet is
// reported.
func (s *Stack) Listen(ctx context.Context, mine func() map[netip.Addr]string) (<-chan announce.Heard, error) {
	l := &listening{stack: s, mine: mine, all: make(chan said, heardRoom), heard: make(chan announce.Heard, heardRoom)}
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
	all      chan said
	heard    chan announce.Heard

	// scope is the set of packets to receive. names are the names of the links by index.
	scope [2]scope
	names map[int]string
}

// hear passes packets about our addresses to run.
func (l *listening) hear(w said) {
	if _, ours := l.mine()[w.addr]; !ours {
		return
	}
	w.at = time.Now()
	select {
	case l.all <- w:
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
		case w := <-l.all:
			l.tell(ctx, w)
		}
	}
}

// look reads on which links our addresses are, and listens there.
func (l *listening) look(ctx context.Context) error {
	wanted := make(map[string]*[2][]uint32)
	for addr, name := range l.mine() {
		if wanted[name] == nil {
			wanted[name] = new([2][]uint32)
		}
		wanted[name][familyIndex(addr)] = append(wanted[name][familyIndex(addr)], numberOf(addr))
	}
	var scope [2]scope
	names := make(map[int]string, len(wanted))
	for name, families := range wanted {
		at, err := l.stack.link(ctx, name)
		if errors.Is(err, unix.ENODEV) || err == nil && !at.hasNeighbors() {
			continue
		}
		if err != nil {
			return fmt.Errorf("read link %s: %w", name, err)
		}
		names[at.Index] = name
		for family, numbers := range families {
			if len(numbers) > 0 {
				scope[family].links = append(scope[family].links, at.Index)
				scope[family].numbers = append(scope[family].numbers, numbers...)
			}
		}
	}
	return l.move(scope, names)
}

// move receives the packets in scope, unless it already does.
func (l *listening) move(scope [2]scope, names map[int]string) error {
	same := true
	for family, now := range scope {
		slices.Sort(now.links)
		slices.Sort(now.numbers)
		same = same && slices.Equal(now.links, l.scope[family].links) && slices.Equal(now.numbers, l.scope[family].numbers)
	}
	l.names = names
	if same && !slices.ContainsFunc(l.stack.receiver.sockets, (*packetSocket).lost) {
		return nil
	}
	if err := l.stack.receiver.add(&l.listener, scope); err != nil {
		return err
	}
	l.scope = scope
	return nil
}

// tell passes w on if it came from another station, on the link that has the address.
func (l *listening) tell(ctx context.Context, w said) {
	name := l.names[w.link]
	if name == "" || l.mine()[w.addr] != name || l.isOwn(ctx, w.mac) {
		return
	}
	select {
	case l.heard <- announce.Heard{Link: name, Addr: w.addr, MAC: w.mac, Probe: w.probe, At: w.at}:
	default:
	}
}

// isOwn reports whether mac is a MAC of this node. The segment may be flooded, so it does not read
// the links for each packet.
func (l *listening) isOwn(ctx context.Context, mac [6]byte) bool {
	own, err := l.stack.recentOwnMACs(ctx)
	if err != nil {
		l.stack.log.DebugContext(ctx, "reading the links", "error", err)
	}
	return own[mac]
}

// familyIndex returns the index of the socket for packets about addr.
func familyIndex(addr netip.Addr) int {
	if addr.Is4() {
		return indexIPv4
	}
	return indexIPv6
}
