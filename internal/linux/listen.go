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
	// lookEvery is how often Listen looks for where it has to listen.
	lookEvery = time.Second
	// heardRoom is how much a reader of Listen may fall behind.
	heardRoom = 64
)

// Listen tells what other stations say about our addresses, on the links where
// these are: that they have one of them, or would like to. What another link of
// this node says is nothing. The channel is closed when ctx is done.
//
// mine returns our local addresses and their links. It is asked for everything
// that is said, so it must be quick, and it must not use the Stack. An address or a
// link that mine did not name before, and a link that went away and came again, is
// listened for within a second.
//
// A slow reader misses what it does not take (Missed): who goes on claiming an
// address will be heard later.
func (s *Stack) Listen(ctx context.Context, mine func() map[netip.Addr]string) (<-chan announce.Heard, error) {
	l := &listening{stack: s, mine: mine, all: make(chan said, heardRoom), heard: make(chan announce.Heard, heardRoom)}
	l.ear.hear = l.hear
	if err := l.look(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), s.ears.leave(&l.ear))
	}
	go l.run(ctx)
	return l.heard, nil
}

// Missed returns how often something was heard that nobody took.
func (s *Stack) Missed() uint64 { return s.missed.Load() }

// listening is what one Listen knows.
type listening struct {
	stack *Stack
	mine  func() map[netip.Addr]string
	ear   listener
	all   chan said
	heard chan announce.Heard

	// scope is what it listens for, and names are those of the links.
	scope [2]scope
	names map[int]string
	// own are the MACs of this node, as of readOwn.
	own     map[[6]byte]bool
	readOwn time.Time
}

// hear keeps what is about our addresses for run to look at.
func (l *listening) hear(w said) {
	if _, ours := l.mine()[w.addr]; !ours {
		return
	}
	select {
	case l.all <- w:
	default:
		l.stack.missed.Add(1)
	}
}

func (l *listening) run(ctx context.Context) {
	defer close(l.heard)
	again := time.NewTicker(lookEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			if err := l.stack.ears.leave(&l.ear); err != nil {
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

// look finds out where our addresses are now, and listens there.
func (l *listening) look(ctx context.Context) error {
	wanted := make(map[string]*[2][]uint32)
	for addr, name := range l.mine() {
		if wanted[name] == nil {
			wanted[name] = new([2][]uint32)
		}
		wanted[name][earOf(addr)] = append(wanted[name][earOf(addr)], numberOf(addr))
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

// move listens for what is in scope, if it does not do so already.
func (l *listening) move(scope [2]scope, names map[int]string) error {
	same := true
	for family, now := range scope {
		slices.Sort(now.links)
		slices.Sort(now.numbers)
		same = same && slices.Equal(now.links, l.scope[family].links) && slices.Equal(now.numbers, l.scope[family].numbers)
	}
	l.names = names
	if same {
		return nil
	}
	if err := l.stack.ears.attend(&l.ear, scope); err != nil {
		return err
	}
	l.scope = scope
	return nil
}

// tell passes on w if another station said it where we have the address.
func (l *listening) tell(ctx context.Context, w said) {
	name := l.names[w.link]
	if name == "" || l.mine()[w.addr] != name || l.isOwn(ctx, w.mac) {
		return
	}
	select {
	case l.heard <- announce.Heard{Link: name, Addr: w.addr, MAC: w.mac, Probe: w.probe}:
	default:
		l.stack.missed.Add(1)
	}
}

// isOwn says whether mac is one of this node, by what is known for a second at
// most: somebody may flood the segment, and links change seldom.
func (l *listening) isOwn(ctx context.Context, mac [6]byte) bool {
	if time.Since(l.readOwn) >= lookEvery {
		if own, err := l.stack.ownMACs(ctx); err == nil {
			l.own, l.readOwn = own, time.Now()
		} else {
			l.stack.log.DebugContext(ctx, "reading the links", "error", err)
		}
	}
	return l.own[mac]
}

// earOf returns the place of the ear for what is said about addr.
func earOf(addr netip.Addr) int {
	if addr.Is4() {
		return earIPv4
	}
	return earIPv6
}
