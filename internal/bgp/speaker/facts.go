package speaker

import (
	"context"
	"errors"
	"reflect"
	"runtime/debug"
	"time"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/bgp/bfd"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/process"
)

const (
	// collectPause is how long the loop collects changes before it reads everything.
	collectPause = 200 * time.Millisecond
	// addressPause is the same pause after a change of addresses. It is longer, because many
	// addresses may change at once and reading delays their announcement.
	addressPause = time.Second
	// rereadEvery is the first interval of reading without a signal, because the numbers of
	// prefixes change without a signal. While nothing changes, the interval doubles up to
	// fullCheck: with thousands of routes, reading is most of the work of an idle speaker.
	rereadEvery = 15 * time.Second
)

// facts are the last observed sessions, routes and interfaces. Reports use them.
type facts struct {
	backoff.Schedule
	// quiet is the pause until the next reading, while nothing changes.
	quiet backoff.Pauses
	// burst notices that many addresses were added or removed.
	burst process.Burst

	found
	failure string
}

// found is the result of one reading.
type found struct {
	neighbors  []peering.NeighborStatus
	learned    []peering.LearnedRoute
	interfaces []peering.Interface
	bfd        []bfd.Status
}

// same compares all but BFD, whose status counts packets. BFD has events for all other
// changes.
func (f found) same(g found) bool {
	f.bfd, g.bfd = nil, nil
	return reflect.DeepEqual(f, g)
}

// askSoon asks for a reading after collectPause.
func (f *facts) askSoon(now time.Time) { f.Ask(now.Add(collectPause)) }

// read starts to read the facts.
func (s *Speaker) read(_ context.Context, now time.Time) {
	f := &s.facts
	f.Begin(now)
	var patterns []string
	if i := s.imports.importer; i != nil {
		patterns = i.patterns
	}
	learns := s.governing.applied.State.Learns
	s.background.start(s.life, func(ctx context.Context) completion {
		began := time.Now()
		found, err := findFacts(ctx, s.Server, s.Kernel, s.BFD, patterns, learns)
		return func(ctx context.Context, now time.Time) {
			f.End(now, nil)
			s.Metrics.collected(now.Sub(began), err)
			s.takeFacts(ctx, now, found, err)
		}
	})
}

func findFacts(ctx context.Context, server Server, kernel Kernel, bfd BFD, patterns []string, learns bool) (f found, err error) {
	var errs [3]error
	f.neighbors, errs[0] = server.Neighbors(ctx)
	if learns {
		f.learned, errs[1] = server.Learned(ctx)
	}
	if len(patterns) > 0 {
		f.interfaces, errs[2] = kernel.Interfaces(ctx, patterns)
	}
	f.bfd = bfd.Status()
	return f, errors.Join(errs[:]...)
}

// takeFacts stores the result of a reading. After an error the earlier facts stay.
func (s *Speaker) takeFacts(ctx context.Context, now time.Time, found found, err error) {
	f := &s.facts
	if err == nil && f.same(found) {
		s.freeMemory()
	} else {
		f.quiet.Reset()
	}
	f.Ask(now.Add(f.quiet.Next()))
	if err != nil {
		s.broken(err)
		if f.failure != err.Error() {
			s.Log.WarnContext(ctx, "statusNotRead", "node", s.Node, "error", err)
		}
		f.failure = err.Error()
		return
	}
	f.failure = ""
	lacked := s.lacksSession()
	f.found = found
	s.reporter.neighbors(ctx, s.input.Config, found.neighbors)
	s.limit(s.life, now)
	s.governing.learn(now, found.neighbors)
	s.exportWhenHeard(now)
	s.setSessions(ctx, now) // for those that came by themselves
	if s.lacksSession() && !lacked || !s.governing.staggered.IsZero() {
		s.governing.Ask(now) // another program may have the session, or those that a change ends have ended
	}
	s.publishSoon(now)
}

// freeMemory returns memory to the kernel after many addresses were added or removed.
func (s *Speaker) freeMemory() {
	if !s.facts.burst.Over(s.imports.total) {
		return
	}
	s.background.start(s.life, func(context.Context) completion {
		debug.FreeOSMemory()
		return nil
	})
}
