package backends

import (
	"context"
	"log/slog"
	"time"

	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/ipam"
)

// callTimeout limits one call of a driver, which may send many requests.
const callTimeout = 2 * time.Minute

// backend is what a worker needs of a driver. Only the worker calls it.
type backend interface {
	// prepare makes the backend ready, if needed. After renew it starts again.
	prepare(ctx context.Context) error
	renew()
	// Claim, Release and Capacity are those of ipamtest.Driver.
	Claim(ctx context.Context, claims []ipam.Claim) []ipam.Answer
	Release(ctx context.Context, grants []ipam.Grant) []error
	Capacity(ctx context.Context) (ipam.Capacity, error)
	// ReleaseAll releases everything of the holder of a key.
	ReleaseAll(ctx context.Context, key string) error
	// batch is how many claims one call takes.
	batch() int
	// nearby says that calls cost nothing: the backend is in the same Pod.
	nearby() bool
	// rest is the time between two measurements if nothing happens.
	rest() time.Duration
	// measuring judges an error of Capacity. It returns a fault, or nil if claims may still
	// work.
	measuring(err error) *ipam.Error
	close()
}

// worker does the work with the backend of a group.
type worker struct {
	config  config.Backend
	backend backend
	ledger  Ledger
	holds   func() (all map[hold]bool, byGroup map[string][]ipam.Grant, complete bool)
	state   *entry
	log     *slog.Logger
	random  func() float64
	stop    context.CancelFunc
	poked   chan struct{}

	preparing pace
	tasks     []*task
	// renewed is when prepare last started again.
	renewed time.Time
	// quiet is the end of the pause that the backend asked for.
	quiet time.Time
	// surplus are grants that the backend holds without a claim.
	surplus []ipam.Grant
	// freed says that surplus was released and the ledger does not know it yet.
	freed bool
	// measured is when the addresses were last counted. dirty says that addresses have changed
	// since.
	measured time.Time
	dirty    bool
}

// task is a part of the work. Each task fails and is repeated on its own: a backend that refuses
// releases may still grant claims.
type task struct {
	run  func(ctx context.Context) result
	pace pace
}

func newWorker(m *Manager, b config.Backend, backend backend, state *entry) *worker {
	w := &worker{
		config:  b,
		backend: backend,
		ledger:  m.ledger,
		holds:   m.holds,
		state:   state,
		log:     m.options.Log.With("group", b.Group),
		random:  m.options.Random,
		poked:   make(chan struct{}, 1),
	}
	w.tasks = []*task{
		{run: w.release},
		{run: w.releaseSurplus},
		{run: w.dismiss},
		{run: w.claim},
		{run: w.measure},
	}
	return w
}

// run works until ctx ends. It finishes the call that is then in flight.
func (w *worker) run(ctx context.Context) {
	for poked := true; ctx.Err() == nil; {
		w.work(ctx, poked)
		poked = w.wait(ctx)
	}
}

// work runs the tasks that are due until none of them has work. They take turns, releases
// first.
func (w *worker) work(ctx context.Context, poked bool) {
	for more := true; more; poked = false {
		more = false
		for _, t := range w.tasks {
			if ctx.Err() != nil || time.Now().Before(w.due(t.pace, poked)) {
				continue
			}
			if !w.prepare(ctx, t.pace.fault, poked) {
				break
			}
			r := t.run(ctx)
			w.judge(t, r)
			more = more || r.count > 0
		}
		w.report(ctx)
	}
}

// due returns when a task with work may run.
func (w *worker) due(p pace, poked bool) time.Time {
	due := p.next
	if poked && w.backend.nearby() {
		due = p.soon
	}
	if due.Before(w.quiet) {
		return w.quiet
	}
	return due
}

// prepare reports whether the backend is ready. After a fault that an operator must correct it
// starts again, because the backend and the Secret may have changed.
func (w *worker) prepare(ctx context.Context, fault *ipam.Error, poked bool) bool {
	now := time.Now()
	if now.Before(w.due(w.preparing, poked)) {
		return false
	}
	if fault != nil && fault.Kind == ipam.KindMisconfigured && now.Sub(w.renewed) >= firstMending/2 {
		w.renewed = now // once for all tasks
		w.backend.renew()
	}
	call, cancel := deadline(ctx)
	defer cancel()
	if fault := faultOf(w.backend.prepare(call)); fault != nil {
		w.fail(&w.preparing, fault)
		return false
	}
	w.healed(&w.preparing)
	return true
}

// deadline returns the context of a call. It does not end with the worker, because the
// outcome of the call would then be unknown.
func deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
}

// judge notes the result of a task.
func (w *worker) judge(t *task, r result) {
	if r.decided > 0 {
		w.answers()
	}
	switch {
	case r.stops():
		if r.decided > 0 {
			t.pace.succeeded() // the failures before
		}
		w.fail(&t.pace, r.fault)
	case r.count > 0:
		w.healed(&t.pace)
	case t.pace.fault != nil:
		// The failed items may no longer be needed. So only counting shows whether the backend
		// works again.
		t.pace.succeeded()
		w.measured = time.Time{}
	}
}

// answers records that the backend performs requests. Tasks that failed because it was away are
// tried at once.
func (w *worker) answers() {
	w.state.reached(time.Now())
	for _, t := range w.tasks {
		if t.pace.fault != nil && t.pace.fault.Kind == ipam.KindUnavailable {
			t.pace.next, t.pace.soon = time.Time{}, time.Time{}
		}
	}
}

// healed notes a success. After a failure, it makes the other failed parts try at once.
func (w *worker) healed(p *pace) {
	failed := p.fault != nil
	p.succeeded()
	if !failed {
		return
	}
	for _, t := range w.tasks {
		t.pace.next, t.pace.soon = time.Time{}, time.Time{}
	}
}

// fail notes a failure.
func (w *worker) fail(p *pace, fault *ipam.Error) {
	now := time.Now()
	p.failed(now, fault, w.random())
	if fault.Kind == ipam.KindUnavailable {
		w.quiet = now.Add(fault.RetryAfter)
	}
}

// report shows the fault of the first part that has one.
func (w *worker) report(ctx context.Context) {
	fault := w.preparing.fault
	for _, t := range w.tasks {
		if fault == nil {
			fault = t.pace.fault
		}
	}
	began, ended := w.state.fail(time.Now(), fault)
	switch {
	case began != nil:
		w.log.InfoContext(ctx, "backend does not work", "kind", began.Kind, "error", began.Message)
	case ended != nil:
		w.log.InfoContext(ctx, "backend works again", "since", ended.Since)
	}
}

// wait returns when something is due or ctx ends. It reports whether there is new work.
func (w *worker) wait(ctx context.Context) (poked bool) {
	for {
		timer := time.NewTimer(time.Until(w.next(poked)))
		select {
		case <-timer.C:
			return poked
		case <-w.poked:
			poked = true
		case <-ctx.Done():
			timer.Stop()
			return poked
		}
		timer.Stop()
	}
}

// next returns when the worker has something to do.
func (w *worker) next(poked bool) time.Time {
	if w.preparing.fault != nil {
		return w.due(w.preparing, poked)
	}
	next := w.due(pace{next: w.countAt()}, false)
	for _, t := range w.tasks {
		if due := w.due(t.pace, poked); (poked || t.pace.fault != nil) && due.Before(next) {
			next = due
		}
	}
	return next
}
