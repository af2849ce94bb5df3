package speaker

import (
	"context"
	"errors"
	"reflect"
	"runtime/debug"
	"time"

	"purelb.io/purelb/internal/bfd"
	"purelb.io/purelb/internal/peering"
	"purelb.io/purelb/internal/process"
	"purelb.io/purelb/internal/routing"
)

const (
	// calm is how long changes are collected before everything is read.
	calm = 200 * time.Millisecond
	// settled is the same for addresses that come and go: many may do so, and
	// to read is in the way of announcing them.
	settled = time.Second
	// rereadEvery is how soon it is read again when nothing is said to change:
	// the numbers of prefixes do so without a word. While they do not either, it
	// is read ever more seldom, down to once in a fullCheck: with thousands of
	// routes, reading is most of what an idle speaker does.
	rereadEvery = 15 * time.Second
)

// facts are what is so, as it was read last, for reports and for the neighbours
// that come by themselves.
type facts struct {
	paced
	// pause is how long it is until they are read again.
	pause time.Duration
	// burst notices when many addresses came or went.
	burst process.Burst

	found
	failure string
}

// found is what was read.
type found struct {
	neighbors  []peering.NeighborStatus
	learned    []peering.LearnedRoute
	interfaces []routing.InterfaceStatus
	bfd        []bfd.Status
}

// same leaves out BFD, which counts its packets, and tells of all else by itself.
func (f found) same(g found) bool {
	f.bfd, g.bfd = nil, nil
	return reflect.DeepEqual(f, g)
}

// wish has the facts be read again, soon.
func (f *facts) wish(now time.Time) { f.later(now.Add(calm)) }

// look begins to read the facts, unless that is under way.
func (s *Speaker) look(now time.Time) {
	f := &s.facts
	if !f.ready(now) {
		return
	}
	f.begin()
	var patterns []string
	for _, i := range s.imports.rules {
		patterns = append(patterns, i.patterns...)
	}
	learns := s.governing.state.Import.Accepts()
	s.beside.start(s.life, func(ctx context.Context) note {
		began := time.Now()
		found, err := findFacts(ctx, s.Server, s.Kernel, s.BFD, patterns, learns)
		return func(ctx context.Context, now time.Time) {
			f.ended(now, now.Sub(began))
			s.Metrics.collected(f.cost, err)
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

// takeFacts takes in what was read. What could not be read stays as it was.
func (s *Speaker) takeFacts(ctx context.Context, now time.Time, found found, err error) {
	f := &s.facts
	pause := rereadEvery
	if err == nil && f.same(found) {
		pause = min(max(2*f.pause, rereadEvery), fullCheck)
		s.spare()
	}
	f.pause = pause
	f.later(now.Add(f.pause))
	if err != nil {
		s.broken(err)
		if f.failure != err.Error() {
			s.Log.WarnContext(ctx, "statusNotRead", "node", s.Node, "error", err)
		}
		f.failure = err.Error()
		return
	}
	f.failure = ""
	f.found = found
	s.reporter.neighbors(ctx, s.input.Config, found.neighbors)
	s.limit(s.life, now)
	s.exportWhenHeard(now)
	s.setSessions(ctx, now) // for those that came by themselves
	s.publish(now)
}

// spare gives memory back after many addresses have come or gone.
func (s *Speaker) spare() {
	if !s.facts.burst.Over(s.imports.total) {
		return
	}
	s.beside.start(s.life, func(context.Context) note {
		debug.FreeOSMemory()
		return nil
	})
}
