package bfd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

var (
	// errClosed is the error of calls after Close.
	errClosed = errors.New("closed")
	// errTwice is the error of a session with the key of another one.
	errTwice = errors.New("there are two such sessions")
)

// Engine runs sessions. It is safe for concurrent use.
//
// One goroutine, the owner, owns all fields below. It receives packets, timers and calls,
// and never blocks.
type Engine struct {
	log     *slog.Logger
	network network
	events  chan Event
	notes   chan note
	ready   chan struct{} // signals that packets may have arrived
	calls   chan func(now time.Time)
	done    chan struct{}

	ears     [4]ear // for IPv4 and IPv6, then the same for multihop; nil while there is no session
	earErr   [4]error
	earAgain time.Time // when to try again to open the missing sockets
	sessions map[netip.Addr]*session
	numbers  map[uint32]*session // by discriminator
	dropped  bool                // a session has been dropped, and perhaps its port is not needed any more
	closing  bool
}

const (
	// backlog is how many events a reader may be behind. Then the oldest events are lost,
	// but Status always returns the latest state.
	backlog = 1024
	// earPatience is the pause before the engine tries again to open a port.
	earPatience = time.Second
)

// New returns an engine without sessions. It does not use the network before it has a
// session.
func New(log *slog.Logger) *Engine { return start(log, kernel{}) }

func start(log *slog.Logger, n network) *Engine {
	e := &Engine{
		log: log, network: n,
		events: make(chan Event, backlog), notes: make(chan note, backlog),
		ready: make(chan struct{}, 1), calls: make(chan func(time.Time)), done: make(chan struct{}),
		sessions: map[netip.Addr]*session{}, numbers: map[uint32]*session{},
	}
	go e.run()
	go e.write()
	return e
}

// Set replaces the sessions of the engine. A session whose timers, Local or Interface
// change keeps its state and negotiates. A session that is not wanted any more tells its
// neighbor that it is administratively down.
//
// Set leaves out sessions that are impossible, and returns what is wrong with them. Other errors come from the network; the
// engine tries again by itself.
func (e *Engine) Set(ctx context.Context, sessions []Session) error {
	wanted := map[netip.Addr]Session{}
	var errs []error
	for _, s := range sessions {
		err := s.check()
		if _, twice := wanted[s.key()]; twice {
			err = errTwice
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("BFD with %v: %w", s.Peer, err))
			continue
		}
		wanted[s.key()] = s
	}
	var err error
	unheard := e.call(ctx, func(now time.Time) {
		if e.closing {
			err = errClosed
			return
		}
		err = e.set(now, wanted)
	})
	return errors.Join(append(errs, unheard, err)...)
}

// Status returns all wanted sessions, sorted by peer.
func (e *Engine) Status() []Status {
	var list []Status
	_ = e.call(context.Background(), func(time.Time) {
		for _, s := range e.sessions {
			if s.leaving.IsZero() {
				list = append(list, e.status(s))
			}
		}
	})
	slices.SortFunc(list, func(a, b Status) int { return a.key().Compare(b.key()) })
	return list
}

// Events delivers every change of a state in order, while the reader is at most a thousand
// events behind. It does not deliver changes that Set or Close of this end cause.
func (e *Engine) Events() <-chan Event { return e.events }

// Close ends all sessions. It returns when the neighbors know that this end is down, or
// must have detected it, or when ctx is done.
func (e *Engine) Close(ctx context.Context) error {
	err := e.call(ctx, func(now time.Time) {
		e.closing = true
		_ = e.set(now, nil)
	})
	if errors.Is(err, errClosed) {
		return nil
	}
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
	}
	_ = e.call(context.Background(), func(now time.Time) {
		e.closing = true
		_ = e.set(now, nil)
		for _, s := range e.sessions {
			s.leaving = now
		}
	})
	<-e.done
	return fmt.Errorf("wait for BFD neighbours: %w", context.Cause(ctx))
}

// call makes the owner run f, and waits until f has returned.
func (e *Engine) call(ctx context.Context, f func(now time.Time)) error {
	over := make(chan struct{})
	select {
	case <-e.done:
		return errClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	case e.calls <- func(now time.Time) { f(now); close(over) }:
	}
	<-over
	return nil
}

// set replaces the sessions by wanted.
func (e *Engine) set(now time.Time, wanted map[netip.Addr]Session) error {
	for key, s := range e.sessions {
		if _, stays := wanted[key]; !stays {
			e.dismiss(now, s)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(wanted), netip.Addr.Compare) {
		switch s := e.sessions[key]; {
		case s == nil:
			e.add(now, key, wanted[key])
		case !s.leaving.IsZero():
			e.drop(s)
			e.add(now, key, wanted[key])
		case s.asked.Multihop != wanted[key].Multihop:
			// The neighbor regards these as two sessions.
			e.disable(now, s)
			e.drop(s)
			e.add(now, key, wanted[key])
		default:
			e.change(s, wanted[key])
		}
	}
	e.listen(now)
	return errors.Join(e.earErr[:]...)
}

func (e *Engine) add(now time.Time, key netip.Addr, wanted Session) {
	s := &session{
		machine: newMachine(now, e.newDiscriminator(), wanted.timers(), rand.Float64),
		key:     key, asked: wanted, since: now,
	}
	s.passive = wanted.Passive
	e.sessions[key], e.numbers[s.discriminator] = s, s
}

// newDiscriminator returns a number that no session has. It is random, so that packets for
// the previous process do not match a session of this one.
func (e *Engine) newDiscriminator() uint32 {
	for {
		if n := rand.Uint32(); n != 0 && e.numbers[n] == nil {
			return n
		}
	}
}

func (e *Engine) change(s *session, wanted Session) {
	if s.asked == wanted {
		return
	}
	if s.asked.local() != wanted.local() || s.asked.link() != wanted.link() {
		e.hush(s)
	}
	s.asked, s.passive = wanted, wanted.Passive
	s.configure(wanted.timers())
}

// dismiss tells the neighbor that the session ends. It keeps the session until the neighbor
// knows, or has had a Detection Time to learn of it (RFC 5880, section 6.8.16).
func (e *Engine) dismiss(now time.Time, s *session) {
	if !s.leaving.IsZero() {
		return
	}
	every, _ := s.interval()
	e.disable(now, s)
	if s.known() {
		e.drop(s)
		return
	}
	s.leaving = now.Add(time.Duration(s.told.multiplier) * max(every, s.told.transmit))
}

// disable tells the neighbor that the session is administratively down.
func (e *Engine) disable(now time.Time, s *session) {
	for _, c := range s.disable(now) {
		e.say(s, c)
	}
}

// drop removes the session.
func (e *Engine) drop(s *session) {
	e.hush(s)
	e.dropped = true
	delete(e.sessions, s.key)
	delete(e.numbers, s.discriminator)
}

// hush closes the sending socket of the session. The next packet opens another.
func (e *Engine) hush(s *session) {
	if s.mouth != nil {
		_ = s.mouth.Close()
		s.mouth = nil
	}
}

// status returns the status of s, including an error that keeps it from receiving.
func (e *Engine) status(s *session) Status {
	st := s.status()
	if err := e.earErr[s.asked.ear()]; err != nil && st.LastError == "" {
		st.LastError = err.Error()
	}
	return st
}
