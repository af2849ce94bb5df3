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
	// The methods are those of ipamtest.Driver. The claims are those of one holder.
	Claim(ctx context.Context, claims []ipam.Claim) []ipam.Answer
	Release(ctx context.Context, grants []ipam.Grant) []error
	Capacity(ctx context.Context) (ipam.Capacity, error)
}

// backend is what a group needs of a kind of backend. It is used by as many goroutines as parallel says.
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
	stop    context.CancelFunc
	// queue has the holders with work, and counting if the addresses are to be counted. A holder whose
	// request failed or was refused comes again after a growing pause, and so does counting.
	queue workqueue.TypedRateLimitingInterface[ipam.Holder]
	// outages and mistakes are the growing pauses of the whole group while its backend is away, and
	// while a person must correct something. The queue has the second one too.
	outages, mistakes workqueue.TypedRateLimiter[ipam.Holder]

	mu sync.Mutex // guards what follows
	// next is when the whole group may work again.
	next time.Time
	// failing are the faults of holders, and that of counting.
	failing map[ipam.Holder]*ipam.Error
	// renewed is when the backend last began anew.
	renewed time.Time
	// counted is when the addresses were last counted.
	counted time.Time
}

// counting stands in the queue for the count of the addresses, and in limiters for the whole group. Each
// holder has a group.
var counting ipam.Holder

// A pause doubles with each failure, from the first to the longest.
const (
	firstWait                    = time.Second
	firstMistake, longestMistake = 15 * time.Second, 5 * time.Minute
)

func newGroup(m *Manager, b config.Backend, backend backend, state *entry, stop context.CancelFunc) *group {
	mistakes := workqueue.NewTypedItemExponentialFailureRateLimiter[ipam.Holder](firstMistake, longestMistake)
	return &group{
		config: b, backend: backend, ledger: m.ledger, state: state, stop: stop, log: m.options.Log.With("group", b.Group),
		queue:    workqueue.NewTypedRateLimitingQueue(mistakes),
		outages:  workqueue.NewTypedItemExponentialFailureRateLimiter[ipam.Holder](firstWait, backend.longest()),
		mistakes: mistakes,
		failing:  map[ipam.Holder]*ipam.Error{},
	}
}

// run works until ctx ends. It finishes the calls that are then in flight.
func (g *group) run(ctx context.Context) {
	defer context.AfterFunc(ctx, g.queue.ShutDown)()
	g.queue.Add(counting)
	g.resume()
	var all sync.WaitGroup
	for range g.backend.parallel() {
		all.Go(func() { g.serve(ctx) })
	}
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
		pause := time.Until(g.next)
		g.mu.Unlock()
		if pause <= 0 {
			return ctx.Err() == nil
		}
		if !backoff.Sleep(ctx, min(pause, firstWait)) { // another worker may end the pause
			return false
		}
	}
}

// serveOne does the work of a holder, or counts the addresses.
func (g *group) serveOne(ctx context.Context, h ipam.Holder) {
	call, cancel := deadline(ctx)
	defer cancel()
	d, err := g.backend.ready(call)
	switch {
	case err != nil:
		g.failed(ctx, h, faultOf(asFault(err)), true)
	case h == counting:
		g.count(ctx, call, d)
	default:
		g.work(ctx, call, d, h)
	}
}

// work does the work of a holder.
func (g *group) work(ctx, call context.Context, d driver, h ipam.Holder) {
	w := g.ledger.Work(h)
	var errs []error
	var next ipam.Due
	switch {
	case len(w.Release) > 0:
		errs = d.Release(call, w.Release)
		next = g.ledger.Released(h, w.Release, errs)
		for i, err := range errs {
			errs[i] = asFault(err)
		}
	case len(w.Claims) > 0:
		answers := d.Claim(call, w.Claims)
		for _, a := range answers {
			errs = append(errs, a.Err)
		}
		next = g.ledger.Answered(h, w.Claims, answers)
	default:
		g.settled(h)
		return
	}
	fault := worst(errs)
	if slices.ContainsFunc(errs, func(err error) bool { return faultOf(err) == nil }) {
		g.worked(ctx, h, fault == nil)
	}
	refused := slices.ContainsFunc(errs, func(err error) bool { return err != nil })
	switch {
	case fault != nil:
		g.failed(ctx, h, fault, fault.Kind != ipam.KindMisconfigured)
		return
	case refused, next == ipam.DueLater:
		g.queue.AddRateLimited(h)
	case len(w.Claims) > 0:
		g.queue.Forget(h)
	}
	if next == ipam.DueNow && (!refused || g.queue.NumRequeues(h) < mostInRow) { // a wrong backend may answer so without end
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
	return misconfigured("%v", err)
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
	g.next = time.Time{}
	g.outages.Forget(counting)
	g.mistakes.Forget(counting)
	soon := time.Until(g.counted.Add(g.backend.settle()))
	g.mu.Unlock()
	g.report(ctx)
	g.queue.AddAfter(counting, soon)
	if mended {
		g.resume() // what is wrong for others may be right now too
	}
}

// failed notes a failure of h, which is tried again. all says that the whole group waits. After a
// fault that a person must correct, the backend begins anew, because it and the Secret may have
// changed.
func (g *group) failed(ctx context.Context, h ipam.Holder, fault *ipam.Error, all bool) {
	g.mu.Lock()
	now, pauses := time.Now(), g.outages
	g.failing[h] = fault
	if fault.Kind == ipam.KindMisconfigured {
		pauses = g.mistakes
		if now.Sub(g.renewed) >= firstMistake/2 {
			g.renewed = now
			g.backend.renew()
		}
	}
	if all {
		g.next = now.Add(max(pauses.When(counting), fault.RetryAfter))
	}
	g.mu.Unlock()
	g.report(ctx)
	if all {
		g.queue.Add(h)
	} else {
		g.queue.AddRateLimited(h)
	}
}

// settled notes that h has no work left. If it failed before, only a count shows whether the backend
// works.
func (g *group) settled(h ipam.Holder) {
	g.queue.Forget(h)
	g.mu.Lock()
	defer g.mu.Unlock()
	if fault := g.failing[h]; fault != nil {
		delete(g.failing, h)
		g.failing[counting] = fault
		g.queue.Add(counting)
	}
}

// count counts the addresses of the group.
func (g *group) count(ctx, call context.Context, d driver) {
	g.mu.Lock()
	g.counted = time.Now()
	g.mu.Unlock()
	c, err := d.Capacity(call)
	if fault := g.backend.uncounted(err); fault != nil {
		g.failed(ctx, counting, fault, fault.Kind != ipam.KindMisconfigured)
		return
	}
	if err != nil {
		g.state.warn("capacity", "the number of addresses is not known: "+err.Error())
	} else {
		g.state.warn("capacity")
		g.state.measured(c)
		g.state.reached(time.Now())
	}
	g.mu.Lock()
	g.next = time.Time{}
	healed := g.failing[counting] != nil
	if delete(g.failing, counting); len(g.failing) == 0 {
		g.outages.Forget(counting)
	}
	g.mu.Unlock()
	g.report(ctx)
	if healed {
		g.resume()
	}
	g.queue.Forget(counting)
	g.queue.AddAfter(counting, g.backend.rest())
}

// report shows the fault of the group, if there is one.
func (g *group) report(ctx context.Context) {
	g.mu.Lock()
	var errs []error
	for _, fault := range g.failing {
		errs = append(errs, fault)
	}
	g.mu.Unlock()
	began, ended := g.state.fail(time.Now(), worst(errs))
	switch {
	case began != nil:
		g.log.InfoContext(ctx, "backend does not work", "kind", began.Kind, "error", began.Message)
	case ended != nil:
		g.log.InfoContext(ctx, "backend works again", "since", ended.Since)
	}
}
