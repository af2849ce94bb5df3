package backends

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/config"
)

// callTimeout limits one call of a driver, which may send many requests.
const callTimeout = 2 * time.Minute

// rest is the time between two counts of the addresses if nothing happens.
const rest = 5 * time.Minute

// driver performs requests.
type driver interface {
	// Claim, Release and Capacity are those of ipamtest.Driver. The claims are those of one holder.
	Claim(ctx context.Context, claims []ipam.Claim) []ipam.Answer
	Release(ctx context.Context, grants []ipam.Grant) []error
	Capacity(ctx context.Context) (ipam.Capacity, error)
	// ReleaseAll releases everything of the holder of a key.
	ReleaseAll(ctx context.Context, key string) error
}

// backend is what a group needs of a kind of backend. It is safe for concurrent use.
type backend interface {
	// ready returns the driver for the next call. After renew it begins anew.
	ready(ctx context.Context) (driver, error)
	renew()
	// parallel is how many calls run at once.
	parallel() int
	// longest is the longest pause while the backend is away.
	longest() time.Duration
	// settle and rest are the shortest time between two counts of the addresses after a change, and
	// without one.
	settle() time.Duration
	rest() time.Duration
	// uncounted judges an error of Capacity. It returns a fault, or nil if claims may still
	// work.
	uncounted(err error) *ipam.Error
	close()
}

// group works with the backend of a ServiceGroup.
type group struct {
	config  config.Backend
	backend backend
	ledger  Ledger
	state   *entry
	log     *slog.Logger
	random  func() float64
	stop    context.CancelFunc
	// queue has the holders with work.
	queue workqueue.TypedRateLimitingInterface[ipam.Holder]
	// count gets a signal when it may be time to count the addresses.
	count chan struct{}

	mu sync.Mutex // guards what follows
	// working is the pace of all requests for holders, and counting that of counts.
	working, counting pace
	// failing are the faults of holders.
	failing map[ipam.Holder]*ipam.Error
	// renewed is when the backend last began anew.
	renewed time.Time
	// counted is when the addresses were last counted. dirty says that addresses have changed
	// since.
	counted time.Time
	dirty   bool
}

func newGroup(m *Manager, b config.Backend, backend backend, state *entry, stop context.CancelFunc) *group {
	return &group{
		config: b, backend: backend, ledger: m.ledger, state: state, stop: stop,
		log: m.options.Log.With("group", b.Group), random: m.options.Random,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[ipam.Holder](firstMending, longestMends)),
		count: make(chan struct{}, 1), failing: map[ipam.Holder]*ipam.Error{},
	}
}

// run works until ctx ends. It finishes the calls that are then in flight.
func (g *group) run(ctx context.Context) {
	defer context.AfterFunc(ctx, g.queue.ShutDown)()
	g.resume()
	var all sync.WaitGroup
	for range g.backend.parallel() {
		all.Go(func() { g.serve(ctx) })
	}
	all.Go(func() { g.countUntil(ctx) })
	all.Wait()
}

// resume makes all holders that have work due.
func (g *group) resume() {
	for _, h := range g.ledger.Pending(g.config.Group) {
		g.queue.Add(h)
	}
}

// serve does the work of one holder after the other.
func (g *group) serve(ctx context.Context) {
	for {
		h, down := g.queue.Get()
		if down {
			return
		}
		if g.wait(ctx) {
			g.serveOne(ctx, h)
		}
		g.queue.Done(h)
	}
}

// wait waits until the group may work. It returns false if ctx ends first.
func (g *group) wait(ctx context.Context) bool {
	for {
		g.mu.Lock()
		pause := time.Until(g.working.next)
		g.mu.Unlock()
		if pause <= 0 {
			return ctx.Err() == nil
		}
		if !backoff.Sleep(ctx, min(pause, firstWait)) { // the count may end the pause
			return false
		}
	}
}

// serveOne does the work of a holder.
func (g *group) serveOne(ctx context.Context, h ipam.Holder) {
	call, cancel := deadline(ctx)
	defer cancel()
	d, err := g.backend.ready(call)
	if err != nil {
		g.failed(ctx, h, faultOf(asFault(err)), true)
		return
	}
	w := g.ledger.Work(h)
	var errs []error
	again := false
	switch {
	case len(w.Release) > 0:
		errs = d.Release(call, w.Release)
		again = g.ledger.Released(h, w.Release, errs)
		for i, err := range errs {
			errs[i] = asFault(err)
		}
	case len(w.Claims) > 0:
		answers := d.Claim(call, w.Claims)
		for _, a := range answers {
			errs = append(errs, a.Err)
		}
		again = g.ledger.Answered(h, w.Claims, answers)
	case w.Dismiss != "":
		errs = []error{asFault(d.ReleaseAll(call, w.Dismiss))}
		g.ledger.Dismissed(h, w.Dismiss, errs[0])
	default:
		g.queue.Forget(h)
		g.settled(h)
		return
	}
	fault := worst(errs)
	if slices.ContainsFunc(errs, func(err error) bool { return faultOf(err) == nil }) {
		g.worked(ctx, h, fault == nil)
	}
	switch {
	case fault != nil:
		g.failed(ctx, h, fault, fault.Kind != ipam.KindMisconfigured)
		return
	case len(w.Claims) > 0 && slices.ContainsFunc(errs, func(err error) bool { return err != nil }):
		g.queue.AddRateLimited(h)
		again = again && g.queue.NumRequeues(h) < mostInRow // a wrong backend may answer so without end
	case len(w.Claims) > 0:
		g.queue.Forget(h)
	}
	if again {
		g.queue.Add(h)
	}
}

// mostInRow limits how often the refused claims of a holder are repeated without a pause.
const mostInRow = 3

// deadline returns the context of a call. It does not end with the group, because the
// outcome of the call would then be unknown.
func deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
}

// asFault makes each error a fault: only a claim can be refused for a reason of its own.
func asFault(err error) error {
	if err == nil || faultOf(err) != nil {
		return err
	}
	return &ipam.Error{Kind: ipam.KindMisconfigured, Message: err.Error(), Cause: err}
}

// worked notes that the backend performed a request of h, and ends the pauses. whole says that no
// request of h failed.
func (g *group) worked(ctx context.Context, h ipam.Holder, whole bool) {
	g.state.reached(time.Now())
	g.mu.Lock()
	mended := whole && g.failing[h] != nil && g.failing[h].Kind == ipam.KindMisconfigured
	maps.DeleteFunc(g.failing, func(other ipam.Holder, fault *ipam.Error) bool {
		return whole && other == h || fault.Kind != ipam.KindMisconfigured
	})
	g.working, g.dirty = pace{}, true
	if g.counting.fault != nil {
		g.counting.next = time.Time{}
	}
	g.mu.Unlock()
	g.report(ctx)
	backoff.Poke(g.count)
	if mended {
		g.resume() // what is wrong for others may be right now too
	}
}

// failed notes a failure of h, which is tried again. all says that the whole group waits. After a
// fault that a person must correct, the backend begins anew, because it and the Secret may have
// changed.
func (g *group) failed(ctx context.Context, h ipam.Holder, fault *ipam.Error, all bool) {
	g.mu.Lock()
	now := time.Now()
	g.failing[h] = fault
	if all {
		g.working.failed(now, fault, g.backend.longest(), g.random())
	}
	g.mends(now, fault)
	g.mu.Unlock()
	g.report(ctx)
	if all {
		g.queue.Add(h)
	} else {
		g.queue.AddRateLimited(h)
	}
}

// settled notes that h has no work left. If no holder fails any more, only a count shows whether the
// backend works.
func (g *group) settled(h ipam.Holder) {
	g.mu.Lock()
	_, failed := g.failing[h]
	delete(g.failing, h)
	if failed && len(g.failing) == 0 {
		g.counted = time.Time{}
	}
	g.mu.Unlock()
	if failed {
		backoff.Poke(g.count)
	}
}

// mends lets the backend begin anew after a fault that a person must correct. The caller holds mu.
func (g *group) mends(now time.Time, fault *ipam.Error) {
	if fault.Kind == ipam.KindMisconfigured && now.Sub(g.renewed) >= firstMending/2 {
		g.renewed = now
		g.backend.renew()
	}
}

// countUntil counts the addresses of the group until ctx ends.
func (g *group) countUntil(ctx context.Context) {
	for backoff.Wait(ctx, time.Until(g.countAt()), g.count) {
		if !time.Now().Before(g.countAt()) {
			g.countOnce(ctx)
		}
	}
}

// countAt returns when to count the addresses.
func (g *group) countAt() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.counted
	switch {
	case g.counting.fault != nil:
		at = g.counting.next
	case g.counted.IsZero():
	case g.dirty:
		at = at.Add(g.backend.settle())
	default:
		at = at.Add(g.backend.rest())
	}
	if f := g.working.fault; f != nil && f.RetryAfter > 0 && at.Before(g.working.next) {
		return g.working.next
	}
	return at
}

// countOnce counts the addresses of the group.
func (g *group) countOnce(ctx context.Context) {
	call, cancel := deadline(ctx)
	defer cancel()
	g.mu.Lock()
	g.counted, g.dirty = time.Now(), false
	g.mu.Unlock()
	d, err := g.backend.ready(call)
	fault := faultOf(asFault(err))
	if err == nil {
		var c ipam.Capacity
		c, err = d.Capacity(call)
		fault = g.backend.uncounted(err)
		switch {
		case err == nil:
			g.state.warn("capacity")
			g.state.measured(c)
			g.state.reached(time.Now())
		case fault == nil:
			g.state.warn("capacity", "the number of addresses is not known: "+err.Error())
		}
	}
	now := time.Now()
	g.mu.Lock()
	healed := fault == nil && g.counting.fault != nil
	if fault == nil {
		g.counting = pace{}
	} else {
		g.counting.failed(now, fault, g.backend.longest(), g.random())
		g.mends(now, fault)
	}
	if err == nil && g.working.fault != nil {
		g.working.next = time.Time{} // the backend answers
	}
	if len(g.failing) == 0 {
		g.working = pace{}
	}
	if fault != nil && fault.RetryAfter > 0 {
		g.working.next = now.Add(fault.RetryAfter)
	}
	g.mu.Unlock()
	g.report(ctx)
	if healed {
		g.resume()
	}
}

// report shows the fault of the group, if there is one.
func (g *group) report(ctx context.Context) {
	g.mu.Lock()
	errs := []error{}
	for _, fault := range g.failing {
		errs = append(errs, fault)
	}
	fault := worst(errs)
	if fault == nil {
		fault = g.counting.fault
	}
	g.mu.Unlock()
	began, ended := g.state.fail(time.Now(), fault)
	switch {
	case began != nil:
		g.log.InfoContext(ctx, "backend does not work", "kind", began.Kind, "error", began.Message)
	case ended != nil:
		g.log.InfoContext(ctx, "backend works again", "since", ended.Since)
	}
}
