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

// ErrClosed is the answer of an engine that has been closed.
var ErrClosed = errors.New("closed")

// Engine has sessions. It is safe for concurrent use.
//
// One goroutine owns all that is below: packets, timers and calls come to it,
// and nothing that it does waits for anybody.
type Engine struct {
	log     *slog.Logger
	network network
	events  chan Event
	notes   chan note
	ready   chan struct{} // packets may have come
	calls   chan func(now time.Time)
	done    chan struct{}

	ears     [2]ear // for IPv4 and IPv6, nil while there is no session
	earErr   [2]error
	earAgain time.Time // when those that could not be opened are tried again
	sessions map[netip.Addr]*session
	numbers  map[uint32]*session // by discriminator
	agenda   agenda
	dropped  bool // a session has been forgotten, and perhaps a port with it
	closing  bool
}

const (
	// backlog is how many events a reader may be behind. The oldest are lost
	// then; Status always tells the latest.
	backlog = 1024
	// earPatience is after what time a port that was not to be had is tried
	// again.
	earPatience = time.Second
)

// New returns an engine without sessions. It touches the network when it has
// the first.
func New(log *slog.Logger) (*Engine, error) {
	if log == nil {
		return nil, errors.New("BFD needs a log")
	}
	return start(log, kernel{}), nil
}

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

// Set makes the sessions be exactly these. A session that has other timers, or
// another Local or Interface, than before stays as it is, and negotiates; one
// that is gone tells its neighbour that it is administratively down.
//
// When something is wrong with one of them, nothing changes. Other errors are
// of the network; the engine tries again by itself.
func (e *Engine) Set(ctx context.Context, sessions []Session) error {
	wanted := map[netip.Addr]Session{}
	var errs []error
	for _, s := range sessions {
		if err := s.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("BFD with %v: %w", s.Peer, err))
		}
		if _, twice := wanted[s.key()]; twice {
			errs = append(errs, fmt.Errorf("BFD with %v: there are two such sessions", s.key()))
		}
		wanted[s.key()] = s
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	var err error
	return errors.Join(e.call(ctx, func(now time.Time) {
		if e.closing {
			err = ErrClosed
			return
		}
		err = e.set(now, wanted)
	}), err)
}

// Status returns all sessions that are wanted, by peer.
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

// Events tells of every change of a state, in order, as long as the reader is
// not a thousand behind. What its own side ends by Set or Close is not told.
func (e *Engine) Events() <-chan Event { return e.events }

// Close ends all sessions. It returns when the neighbours know, or will have
// seen by themselves, that this end is down, or when ctx is done.
func (e *Engine) Close(ctx context.Context) error {
	err := e.call(ctx, func(now time.Time) {
		e.closing = true
		_ = e.set(now, nil)
	})
	if errors.Is(err, ErrClosed) {
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
			e.schedule(s)
		}
	})
	<-e.done
	return fmt.Errorf("wait for BFD neighbours: %w", context.Cause(ctx))
}

// call has the owner do f, and waits until that is done.
func (e *Engine) call(ctx context.Context, f func(now time.Time)) error {
	over := make(chan struct{})
	select {
	case <-e.done:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	case e.calls <- func(now time.Time) { f(now); close(over) }:
	}
	<-over
	return nil
}

// set makes the sessions be those wanted.
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
	e.sessions[key], e.numbers[s.discriminator] = s, s
	e.enter(s)
}

// newDiscriminator returns a number that no session has. It is random, so that
// nobody takes the packets of the process before for ours.
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
	s.asked = wanted
	s.configure(wanted.timers())
	e.schedule(s)
}

// dismiss tells the neighbour that the session ends, and keeps it until the
// neighbour knows, or has had a Detection Time to hear it (RFC 5880, section
// 6.8.16).
func (e *Engine) dismiss(now time.Time, s *session) {
	if !s.leaving.IsZero() {
		return
	}
	every, _ := s.interval()
	e.say(s, s.disable(now))
	if s.known() {
		e.drop(s)
		return
	}
	s.leaving = now.Add(time.Duration(s.told.multiplier) * max(every, s.told.transmit))
	e.schedule(s)
}

// drop forgets the session.
func (e *Engine) drop(s *session) {
	e.hush(s)
	e.leave(s)
	e.dropped = true
	delete(e.sessions, s.key)
	delete(e.numbers, s.discriminator)
}

// hush closes what the session sends from. What it sends next opens another.
func (e *Engine) hush(s *session) {
	if s.mouth != nil {
		_ = s.mouth.Close()
		s.mouth = nil
	}
}

// status is what is known of s, with what keeps it from hearing.
func (e *Engine) status(s *session) Status {
	st := s.status()
	if err := e.earErr[family(s.key)]; err != nil && st.LastError == "" {
		st.LastError = err.Error()
	}
	return st
}
