package backoff

import (
	"context"
	"time"
)

// A Schedule decides when a piece of work runs next. It guarantees:
//
//   - One run at a time.
//   - A run starts after each Ask. Several Asks before that start share it. An Ask during a run
//     leads to one more run.
//   - After a run there is a pause. It takes Rest times as long as the run, up to Most, and at
//     least Min.
//   - A run starts after the time Every without a run. After a failed run, the next one starts
//     after a pause of Retry, which grows.
//
// The zero value runs only when asked, and at once. A Schedule has no clock, and is not safe for
// concurrent use.
type Schedule struct {
	Min   time.Duration
	Rest  int
	Most  time.Duration
	Every time.Duration
	Retry Pauses

	busy bool
	// due is when the next run is wanted, or zero. began is the start of the last run. rested
	// is the end of the pause after it.
	due, began, rested time.Time
}

// Ask makes a run start at the time when, or earlier. The zero time has no effect.
func (s *Schedule) Ask(when time.Time) {
	if !when.IsZero() && (s.due.IsZero() || when.Before(s.due)) {
		s.due = when
	}
}

// Next returns when to call Begin. It is zero during a run, and if no run is wanted.
func (s *Schedule) Next() time.Time {
	switch {
	case s.busy || s.due.IsZero():
		return time.Time{}
	case s.due.Before(s.rested):
		return s.rested
	}
	return s.due
}

// Busy reports whether a run is under way.
func (s *Schedule) Busy() bool { return s.busy }

// Begin reports whether a run starts now. If so, the caller must call End after it.
func (s *Schedule) Begin(now time.Time) bool {
	if next := s.Next(); next.IsZero() || now.Before(next) {
		return false
	}
	s.busy, s.began, s.due = true, now, time.Time{}
	return true
}

// End records that a run has ended, with the error err or without one.
func (s *Schedule) End(now time.Time, err error) {
	s.busy = false
	s.rested = now.Add(max(s.Min, min(time.Duration(s.Rest)*now.Sub(s.began), s.Most)))
	switch {
	case err != nil && s.Retry.Max > 0:
		s.Ask(now.Add(s.Retry.Next()))
		return
	case s.Every > 0:
		s.Ask(now.Add(s.Every))
	}
	s.Retry.Reset()
}

// A Loop runs a piece of work by its Schedule, in one goroutine.
type Loop struct {
	Schedule
	// Asked has a signal when a run is needed. It is nil if only time asks for runs.
	Asked <-chan struct{}
	// Do does the work. next is when it must run again, or zero.
	Do func(ctx context.Context) (next time.Time, err error)
	// Failed is called after a failed run, unless the run before failed with the same error.
	Failed func(ctx context.Context, err error)
}

// Run runs the work now, and then as scheduled, until ctx is done.
func (l *Loop) Run(ctx context.Context) error {
	l.Ask(time.Now())
	failure := ""
	for l.wait(ctx) {
		if !l.Begin(time.Now()) {
			continue
		}
		next, err := l.Do(ctx)
		l.End(time.Now(), err)
		l.Ask(next)
		was := failure
		if failure = ""; err != nil {
			failure = err.Error()
		}
		if failure != "" && failure != was && ctx.Err() == nil {
			l.Failed(ctx, err)
		}
	}
	return nil
}

// wait waits until a run may be due. It returns false if ctx is done.
func (l *Loop) wait(ctx context.Context) bool {
	var due <-chan time.Time
	if next := l.Next(); !next.IsZero() {
		timer := time.NewTimer(time.Until(next))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-due:
	case <-l.Asked:
		l.Ask(time.Now())
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
