package agent

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/observer"
)

// Observed counts what this agent sees of an address that another node has.
type Observed struct {
	observed, unanswered, double, packets prometheus.Counter
}

// NewObserved registers the metrics.
func NewObserved(registry prometheus.Registerer) *Observed {
	counter := func(name, help string) prometheus.Counter {
		return promauto.With(registry).NewCounter(prometheus.CounterOpts{Name: "purelb_observed_" + name, Help: help})
	}
	return &Observed{
		observed:   counter("seconds_total", "Seconds in which it is known whether an address of another node was answered."),
		unanswered: counter("unanswered_seconds_total", "Seconds of these in which no machine answered."),
		double:     counter("double_answer_seconds_total", "Seconds of these in which several machines answered."),
		packets:    counter("packets_total", "Packets sent to find that out."),
	}
}

func (o *Observed) count(c observer.Count) {
	o.observed.Add(c.Observed.Seconds())
	o.unanswered.Add(c.Unanswered.Seconds())
	o.double.Add(c.Double.Seconds())
}

// nothingToWatch is the pause while there is no address to watch.
const nothingToWatch = 2 * time.Second

// watchOthers watches one address of another node after the other, beside the loop, until ctx
// is done.
func (a *Agent) watchOthers(ctx context.Context) {
	var w observer.Watch
	said := ""
	for {
		began := time.Now()
		q, c, pause := a.watchRound(ctx, &w, began)
		a.Observed.count(c)
		said = a.sayObserved(ctx, q, c, said)
		if !backoff.Sleep(ctx, pause-time.Since(began)) {
			return
		}
	}
}

// watchRound asks once. It returns the time from this question to the next.
func (a *Agent) watchRound(ctx context.Context, w *observer.Watch, now time.Time) (observer.Question, observer.Count, time.Duration) {
	v, known := a.observerView(now)
	if !known {
		*w = observer.Watch{}
		return observer.Question{}, observer.Count{}, nothingToWatch
	}
	q, c, ok := w.Next(now, v, rand.IntN)
	if !ok {
		return q, c, nothingToWatch
	}
	a.Observed.packets.Add(float64(len(q.All())))
	answers, err := a.Kernel.Probe(ctx, q.Link, q.All(), q.Asking)
	later, known := a.observerView(time.Now())
	if err != nil || !known {
		w.Forget()
		return q, c, w.Pause(q, 0)
	}
	nodes := w.ToAsk(later, q, answers)
	a.Observed.packets.Add(float64(len(nodes)))
	denied := a.denying(ctx, nodes, q.Address)
	return q, c.Plus(w.Learn(later, q, answers, denied)), w.Pause(q, len(nodes))
}

// observerView returns what the last pass of the loop left. known is false if that is missing
// or too old, or if this node is cut off.
func (a *Agent) observerView(now time.Time) (v observer.View, known bool) {
	s, last := a.prober.seen.Load(), a.shown.Load()
	if s == nil || last == nil || s.Peers.CutOff || now.Sub(last.at) > fullCheck+passLimit {
		return observer.View{}, false
	}
	return observer.View{Situation: *s, Decisions: last.decisions, Here: last.isHere}, true
}

// denying asks the agents of nodes whether they have ip.
func (a *Agent) denying(ctx context.Context, nodes []string, ip netip.Addr) announce.Denied {
	ctx, cancel := context.WithTimeout(ctx, inquiryWait)
	defer cancel()
	denied := announce.Denied{}
	var mu sync.Mutex
	var wait sync.WaitGroup
	for _, node := range nodes {
		wait.Go(func() {
			denies := a.inquire(ctx, node, []netip.Addr{ip})
			mu.Lock()
			defer mu.Unlock()
			denied.Add(node, denies)
		})
	}
	wait.Wait()
	return denied
}

// sayObserved logs when an address begins to be unanswered or answered twice. said is what it
// said last.
func (a *Agent) sayObserved(ctx context.Context, q observer.Question, c observer.Count, said string) string {
	now := ""
	switch {
	case c.Unanswered > 0:
		now = "addressUnanswered"
	case c.Double > 0:
		now = "addressAnsweredTwice"
	}
	if now != "" && now != said {
		a.Log.WarnContext(ctx, now, "node", a.Node, "address", q.Address, "interface", q.Link, "holder", q.Holder)
	}
	return now
}
