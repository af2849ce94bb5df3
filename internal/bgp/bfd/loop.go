package bfd

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"purelb.io/purelb/internal/backoff"
)

// run is the loop of the owner.
func (e *Engine) run() {
	defer close(e.done)
	defer close(e.notes)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !e.closing || len(e.sessions) > 0 {
		select {
		case <-timer.C:
		case <-e.ready:
		case f := <-e.calls:
			f(time.Now())
		}
		timer.Reset(time.Until(e.turn(time.Now())))
	}
	e.listen(time.Now())
}

// turn does all that is due now, and returns when the next work is due.
//
// It reads packets before it checks timers. If this process stood still for a while, packets
// of neighbors are waiting, and these neighbors must not be declared down.
func (e *Engine) turn(now time.Time) (next time.Time) {
	for i, ear := range e.ears {
		hear := func(a arrival) {
			a.multihop = i >= 2
			e.hear(now, a)
		}
		if ear != nil && ear.take(hear) {
			backoff.Poke(e.ready)
		}
	}
	next, s := e.first(now)
	for ; s != nil && !next.After(now); next, s = e.first(now) {
		e.tick(now, s)
	}
	// A port must not be closed while packets are read from it.
	if e.dropped || e.deaf() && !now.Before(e.earAgain) {
		e.listen(now)
	}
	if e.deaf() && e.earAgain.Before(next) {
		return e.earAgain
	}
	return next
}

// first returns the session that is due first, and its time. Without one, it returns nil
// and an hour from now. A node has few neighbors, so the engine looks at all of them.
func (e *Engine) first(now time.Time) (at time.Time, first *session) {
	at = now.Add(time.Hour)
	for _, s := range e.sessions {
		if due := s.at(); !due.IsZero() && due.Before(at) {
			at, first = due, s
		}
	}
	return at, first
}

// hear passes a packet to the session whose discriminator the packet contains. A packet
// without a discriminator goes to the session with its sender (RFC 5880, section 6.8.6; RFC
// 5881, section 3).
func (e *Engine) hear(now time.Time, a arrival) {
	c, err := decode(a.packet)
	s := e.numbers[c.yours]
	if err != nil || c.yours == 0 {
		s = e.sessions[a.key()]
	}
	if s == nil {
		return
	}
	if err != nil || !s.fits(a) {
		s.refused++
		return
	}
	s.taken++
	e.step(now, s, func() []control { return s.receive(now, c) })
}

func (e *Engine) tick(now time.Time, s *session) {
	if !s.leaving.IsZero() && !now.Before(s.leaving) {
		e.drop(s)
		return
	}
	e.step(now, s, func() []control { return s.tick(now) })
}

// step runs do on the session's machine, sends the resulting packets, and reports a changed
// state.
func (e *Engine) step(now time.Time, s *session, do func() []control) {
	before := s.state
	out := do()
	for _, c := range out {
		e.say(s, c)
	}
	if s.state != before {
		e.tell(now, s, before)
	}
	if !s.leaving.IsZero() && s.known() {
		e.drop(s)
	}
}

// say sends a packet of the session. An error has the same effect as a loss on the wire.
// The next packet is sent when it is due.
func (e *Engine) say(s *session, c control) {
	err := e.send(s, c)
	if err == nil {
		s.said++
	}
	is := ""
	if err != nil {
		is = err.Error()
	}
	if (is == "") != (s.lastError == "") {
		if err != nil {
			e.note(slog.LevelWarn, "BFD packets cannot be sent", "neighbor", s.key, "error", err)
		} else {
			e.note(slog.LevelInfo, "BFD packets can be sent again", "neighbor", s.key)
		}
	}
	s.lastError = is
}

func (e *Engine) send(s *session, c control) error {
	b, err := c.encode()
	if err != nil {
		return err
	}
	if s.mouth == nil {
		if s.mouth, err = e.network.dial(s.asked); err != nil {
			s.mouth = nil
			return err
		}
	}
	return s.mouth.send(b)
}

// tell sends an event about a change of the session's state.
func (e *Engine) tell(now time.Time, s *session, before State) {
	s.since = now
	ev := Event{Peer: s.key, From: before, To: s.state, At: now}
	if s.state == Down {
		ev.Diagnostic, ev.RemoteAdminDown = s.diagnostic, s.remoteState == AdminDown
		if s.diagnostic == neighborDown {
			ev.RemoteDiagnostic = s.remoteDiagnostic
		}
	}
	switch {
	case s.state == Up:
		s.ups++
	case before == Up:
		s.downs++
	}
	e.note(slog.LevelInfo, "BFD session has changed", "neighbor", s.key, "from", before.String(), "to", s.state.String(),
		"reason", ev.Diagnostic.String())
	for {
		select {
		case e.events <- ev:
			return
		default:
		}
		select {
		case <-e.events:
			e.note(slog.LevelWarn, "a BFD event is lost, as nobody reads")
		default:
		}
	}
}

// listen opens the ports that the sessions need, and closes the others.
func (e *Engine) listen(now time.Time) {
	e.dropped = false
	var needed [len(e.ears)]bool
	for _, s := range e.sessions {
		needed[s.asked.ear()] = true
	}
	for f := range e.ears {
		switch {
		case !needed[f]:
			if e.ears[f] != nil {
				_ = e.ears[f].Close()
			}
			e.ears[f], e.earErr[f] = nil, nil
		case e.ears[f] == nil:
			e.open(f)
		}
	}
	e.earAgain = now.Add(earPatience)
}

func (e *Engine) open(f int) {
	ear, err := e.network.listen(f%2 == 1, f >= 2, func() { backoff.Poke(e.ready) })
	if err == nil {
		e.ears[f], e.earErr[f] = ear, nil
		return
	}
	if e.earErr[f] == nil {
		e.note(slog.LevelWarn, "BFD packets cannot be received", "error", err)
	}
	e.earErr[f] = fmt.Errorf("listen for BFD: %w", err)
}

// deaf reports whether a needed port is not open.
func (e *Engine) deaf() bool {
	return slices.ContainsFunc(e.earErr[:], func(err error) bool { return err != nil })
}

// note is an entry of the log.
type note struct {
	level   slog.Level
	message string
	facts   []any
}

// note passes an entry to write, because the log may block.
func (e *Engine) note(level slog.Level, message string, facts ...any) {
	select {
	case e.notes <- note{level, message, facts}:
	default: // the log blocks; Status and Events provide the same facts
	}
}

// write writes the entries to the log.
func (e *Engine) write() {
	for n := range e.notes {
		e.log.Log(context.Background(), n.level, n.message, n.facts...)
	}
}
