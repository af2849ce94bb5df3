package backoff

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"purelb.io/purelb/internal/testing/expect"
)

var errBroken = errors.New("broken")

// story tells what a Schedule does by the seconds of a clock.
type story struct {
	Schedule
	start time.Time
	text  []string
}

func second(start time.Time, n int) time.Time { return start.Add(time.Duration(n) * time.Second) }

// until runs the work whenever it is due before the second last. A run takes the given
// seconds and ends with err.
func (s *story) until(last, takes int, err error) {
	for {
		next := s.Next()
		if next.IsZero() || !next.Before(second(s.start, last)) {
			return
		}
		if !s.Begin(next) {
			panic("a run that is due does not begin")
		}
		s.text = append(s.text, fmt.Sprint(next.Sub(s.start).Seconds()))
		s.End(next.Add(time.Duration(takes)*time.Second), err)
	}
}

func TestSchedule(t *testing.T) {
	for _, tt := range []struct {
		name string
		of   Schedule
		tell func(*story)
		want string
	}{
		{"nothing runs unasked", Schedule{}, func(s *story) { s.until(100, 0, nil) }, ""},
		{"requests share a run, the first decides when", Schedule{}, func(s *story) {
			for _, n := range []int{5, 3, 4} {
				s.Ask(second(s.start, n))
			}
			s.until(100, 0, nil)
		}, "3"},
		{"the zero time asks for nothing", Schedule{}, func(s *story) { s.Ask(time.Time{}); s.until(100, 0, nil) }, ""},
		{"it runs again after Every", Schedule{Every: 10 * time.Second}, func(s *story) {
			s.Ask(s.start)
			s.until(30, 1, nil)
		}, "0 11 22"},
		{"a request comes before Every", Schedule{Every: 10 * time.Second}, func(s *story) {
			s.Ask(s.start)
			s.until(5, 0, nil)
			s.Ask(second(s.start, 5))
			s.until(20, 0, nil)
		}, "0 5 15"},
		{"it rests for Min", Schedule{Min: 4 * time.Second}, func(s *story) {
			for range 3 {
				s.Ask(s.start)
				s.until(100, 0, nil)
			}
		}, "0 4 8"},
		{"it rests as long as the work took, up to Most", Schedule{Rest: 2, Most: 10 * time.Second}, func(s *story) {
			for _, takes := range []int{1, 4, 100, 0} {
				s.Ask(s.start)
				s.until(1000, takes, nil)
			}
		}, "0 3 15 125"},
		{"failures pause longer and longer, until a success", Schedule{Every: time.Minute, Retry: Pauses{Min: time.Second, Max: 4 * time.Second}}, func(s *story) {
			s.Ask(s.start)
			s.until(8, 0, errBroken)
			s.until(12, 0, nil)
			s.until(74, 0, errBroken)
		}, "0 1 3 7 11 71 72"},
		{"a request comes before the pause of a failure", Schedule{Retry: Pauses{Min: time.Hour, Max: time.Hour}}, func(s *story) {
			s.Ask(s.start)
			s.until(1, 0, errBroken)
			s.Ask(second(s.start, 2))
			s.until(100, 0, nil)
		}, "0 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &story{Schedule: tt.of, start: time.Unix(0, 0)}
			tt.tell(s)
			expect.Equal(t, "runs", strings.Join(s.text, " "), tt.want)
		})
	}
}

func TestARequestDuringARunLeadsToAnother(t *testing.T) {
	now := time.Unix(0, 0)
	var s Schedule
	s.Ask(now)
	if !s.Begin(now) || s.Begin(now) {
		t.Error("it does not run once")
	}
	s.Ask(now)
	if !s.Next().IsZero() || s.Begin(now) {
		t.Error("a second run begins beside the first")
	}
	s.End(now, nil)
	if !s.Begin(now) {
		t.Error("the request is lost")
	}
}

func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, asked := time.Now(), make(chan struct{}, 1)
		ctx, end := context.WithDeadline(t.Context(), start.Add(time.Hour))
		defer end()
		var told []string
		tell := func(format string, args ...any) {
			told = append(told, time.Since(start).String()+" "+fmt.Sprintf(format, args...))
		}
		results := []struct {
			next time.Duration
			err  error
		}{{err: errBroken}, {err: errBroken}, {err: errors.New("other")}, {}, {next: 5 * time.Second}, {}}
		l := Loop{
			Schedule: Schedule{Min: time.Second, Every: 10 * time.Minute, Retry: Pauses{Min: time.Second, Max: time.Minute}},
			Asked:    asked,
			Do: func(context.Context) (next time.Time, err error) {
				tell("run")
				r := results[0]
				if len(results) > 1 {
					results = results[1:]
				}
				if r.next > 0 {
					next = time.Now().Add(r.next)
				}
				return next, r.err
			},
			Failed: func(_ context.Context, err error) { tell("%v", err) },
		}
		time.AfterFunc(20*time.Minute, func() { Poke(asked); Poke(asked) })
		time.AfterFunc(20*time.Minute+time.Millisecond, func() { Poke(asked) })
		if err := l.Run(ctx); err != nil || time.Since(start) != time.Hour {
			t.Errorf("it ends after %s: %v", time.Since(start), err)
		}
		want := `0s run
0s broken
1s run
3s run
3s other
7s run
10m7s run
10m12s run
20m0s run
20m1s run
30m1s run
40m1s run
50m1s run`
		expect.Equal(t, "the result", strings.Join(told, "\n"), want)
	})
}

func TestALoopThatHasEndedDoesNotRun(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	end()
	l := Loop{Do: func(context.Context) (time.Time, error) { t.Error("it ran"); return time.Time{}, nil }}
	if err := l.Run(ctx); err != nil {
		t.Error(err)
	}
}
