package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/backoff"
)

// KubeProxy is what the agent asks this node's kube-proxy, or a program in its place.
type KubeProxy interface {
	// Works returns nil if kube-proxy forwards packets. answered says that kube-proxy itself says no.
	Works(ctx context.Context) (answered bool, err error)
	// Serves reports whether kube-proxy forwards the packets of a Service with the policy Local to an
	// endpoint on this node. port is the HealthPort of the Service, and at are the addresses where
	// kube-proxy may answer. answered says that kube-proxy answers at all.
	Serves(ctx context.Context, port uint16, at []netip.Addr) (serves, answered bool)
}

// gate keeps this node from taking addresses whose packets its kube-proxy does not forward yet. It holds
// back no address that is here.
type gate struct {
	// open says that kube-proxy has worked, that the node had addresses of PureLB at the start of this
	// agent, or that kube-proxy did not answer for noAnswerFor.
	open bool
	// unanswered says what is wrong if kube-proxy does not answer, or is "".
	unanswered string
	// asked are the Services with the policy Local that have a ready endpoint here.
	asked map[announce.ServiceFamily]*question
}

// question is a question to kube-proxy about a Service. served is the answer. While the answer is no,
// the agent asks again, until gone is closed.
type question struct {
	of     announce.ServiceFamily
	port   uint16
	served bool
	gone   chan struct{}
}

const (
	// askEvery is the pause between two questions to kube-proxy.
	askEvery = 100 * time.Millisecond
	// noAnswerFor is how long the agent waits for an answer about kube-proxy itself. unansweredFor is how
	// long it waits for an answer about one Service. Not every program in the place of kube-proxy answers.
	noAnswerFor   = 2 * time.Minute
	unansweredFor = 10 * time.Second
	// otherFamily is how long the agent waits at least after kube-proxy works for one family. Kube-proxy
	// writes the rules of the other family after those of the first, and says nothing of it. With many
	// Services that takes longer, about as long as the first family took. The first one may have taken long
	// for another reason, so longestOther is the longest wait.
	otherFamily, longestOther = time.Second, 15 * time.Second
)

// waitingText is the reason that other nodes see while this node waits.
const waitingText = "its kube-proxy does not work yet"

// waits reports whether this node must take no address. A node with addresses of PureLB has not just
// started: only the agent has, and kube-proxy works or has worked.
func (a *Agent) waits(o *observation) bool {
	if o.Complete && !a.gate.open && o.Node.HasOurs() {
		a.gate.open = true
	}
	return !a.gate.open
}

// watchKubeProxy asks kube-proxy in the background until it works. It asks once before it returns, so that
// the restart of an agent waits for nothing.
func (a *Agent) watchKubeProxy(ctx context.Context) {
	if a.KubeProxy == nil {
		return
	}
	if _, err := a.KubeProxy.Works(ctx); err == nil {
		a.gate.open = true
		return
	}
	a.background.wait.Go(func() { a.awaitKubeProxy(ctx, time.Now()) })
}

func (a *Agent) awaitKubeProxy(ctx context.Context, began time.Time) {
	heard, told := began, false
	var started time.Time // when kube-proxy was first seen without its rules
	for backoff.Sleep(ctx, askEvery) {
		answered, err := a.KubeProxy.Works(ctx)
		switch {
		case err == nil:
			after, wait := time.Since(began), otherFamily
			if !started.IsZero() {
				wait = max(wait, min(time.Since(started), longestOther))
			}
			backoff.Sleep(ctx, wait)
			a.background.complete(ctx, func() { a.kubeProxyWorks(after) })
			return
		case errors.Is(err, errNoRules) && started.IsZero():
			started = time.Now()
		case answered:
			heard, started = time.Now(), time.Time{}
		case !told && time.Since(heard) >= noAnswerFor:
			told = true
			a.background.complete(ctx, func() { a.kubeProxySilent(err) })
		}
	}
}

func (a *Agent) kubeProxyWorks(after time.Duration) {
	a.Log.Info("kubeProxyWorks", "node", a.Node, "after", after.Round(time.Millisecond))
	a.gate.open, a.gate.unanswered = true, ""
}

// kubeProxySilent lets the node take addresses although nothing says that their packets are forwarded.
func (a *Agent) kubeProxySilent(err error) {
	a.gate.open = true
	a.gate.unanswered = fmt.Sprintf("announces addresses although its kube-proxy has not answered for %s (%v): set lbnodeagent.kubeProxyHealth "+
		"of the chart to what answers in its place, or to none", noAnswerFor, err)
}

// unserved returns the Services that kube-proxy does not serve yet, and the tasks that ask about those that
// are new in ports. It forgets those that are gone from there.
func (a *Agent) unserved(ports map[announce.ServiceFamily]uint16, at []netip.Addr) (map[announce.ServiceFamily]bool, []task) {
	if a.KubeProxy == nil {
		return nil, nil
	}
	for of, q := range a.gate.asked {
		if ports[of] != q.port {
			close(q.gone)
			delete(a.gate.asked, of)
		}
	}
	all, tasks := map[announce.ServiceFamily]bool{}, []task(nil)
	for of, port := range ports {
		q, known := a.gate.asked[of]
		if !known {
			q = &question{of: of, port: port, gone: make(chan struct{})}
			a.gate.asked[of] = q
			tasks = append(tasks, a.ask(q, healthAddresses(of.Family, at)))
		}
		if !q.served {
			all[of] = true
		}
	}
	return all, tasks
}

// ask returns the task that asks kube-proxy until it serves the Service of q.
func (a *Agent) ask(q *question, at []netip.Addr) task {
	return func(ctx context.Context) completion {
		began := time.Now()
		heard := began
		for ctx.Err() == nil {
			serves, answered := a.KubeProxy.Serves(ctx, q.port, at)
			if answered {
				heard = time.Now()
			}
			unanswered := time.Since(heard) >= unansweredFor
			if serves || unanswered {
				return func() {
					a.Log.Info("kubeProxyServes", "node", a.Node, "service", q.of.Service, "family", q.of.Family, "after", time.Since(began).Round(time.Millisecond), "answered", !unanswered)
					q.served = true
				}
			}
			backoff.Wait(ctx, pauseAfter(time.Since(began)), q.gone)
			select {
			case <-q.gone:
				return nil
			default:
			}
		}
		return nil
	}
}

// pauseAfter returns the pause between two questions about a Service, by the time since the first one.
// kube-proxy collects changes for a second, and is rarely slower by much.
func pauseAfter(since time.Duration) time.Duration {
	if since < 5*time.Second {
		return askEvery
	}
	return time.Second
}
