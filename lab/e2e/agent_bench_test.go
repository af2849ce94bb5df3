package e2e

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/lab/product"
)

// BenchmarkAgentIdle measures the writes of idle agents with addresses to the API server. A benchmark
// of the agent's program measures memory and CPU time with ten times as many addresses, and needs no
// cluster. IDLE is the time of the measurement (60s), and SERVICES is the number of Services.
func BenchmarkAgentIdle(b *testing.B) {
	long, err := time.ParseDuration(cmp.Or(os.Getenv("IDLE"), "60s"))
	if err != nil {
		b.Fatal(err)
	}
	services, err := strconv.Atoi(cmp.Or(os.Getenv("SERVICES"), "1000"))
	if err != nil {
		b.Fatal(err)
	}
	w := newWorldFor(b, long+15*time.Minute)
	w.group("e2e-bench", `{remote: {v4pool: {subnet: 10.241.0.0/16, pool: 10.241.0.0/16, aggregation: /32}}}`)
	interfaces := w.wires()
	w.inHands(services, func(i int) error {
		return w.create(fmt.Sprintf("bench-%05d", i), "e2e-bench", corev1.IPFamilyPolicySingleStack)
	})
	for b.Loop() {
		w.until(5*time.Minute, "every node carries every address", func() bool { return interfaces.fewest(netip.MustParsePrefix("10.241.0.0/16")) == services })
		writes := w.countWrites()
		w.idle(writes)
		writes.take()
		began := time.Now()
		time.Sleep(long)
		took := time.Since(began)
		fmt.Printf("RESULT agent_idle_api_writes_per_minute %.2f\n", float64(len(writes.take()))/took.Minutes()/float64(len(lab.Nodes())))
	}
}

// writeLog has the writes of agents: the kind of each object, and its name.
type writeLog struct {
	mu  sync.Mutex
	all []string
}

// take returns the writes since the last call.
func (l *writeLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

func (l *writeLog) add(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, what)
}

// countWrites notes the writes of agents from now on: Leases, slots and conditions of Services,
// events, and the statuses of LBNodeAgents. It does not note writes that change nothing.
func (w *world) countWrites() *writeLog {
	w.t.Helper()
	watching, err := lab.watching()
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	w.t.Cleanup(cancel)
	writes := &writeLog{}
	for _, kind := range []client.ObjectList{&coordinationv1.LeaseList{}, &corev1.ServiceList{}, &corev1.EventList{}} {
		for _, ns := range []string{namespace, product.Namespace} {
			w.follow(ctx, watching, kind.DeepCopyObject().(client.ObjectList), ns, writes)
		}
	}
	return writes
}

// follow notes the changes of one kind of object in a namespace.
func (w *world) follow(ctx context.Context, watching client.WithWatch, kind client.ObjectList, ns string, writes *writeLog) {
	w.t.Helper()
	if err := watching.List(ctx, kind, client.InNamespace(ns)); err != nil {
		w.t.Fatal(err)
	}
	events, err := watching.Watch(ctx, kind, client.InNamespace(ns), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: kind.GetResourceVersion()}})
	if err != nil {
		w.t.Fatal(err)
	}
	go func() {
		for e := range events.ResultChan() {
			o, ok := e.Object.(client.Object)
			event, isEvent := o.(*corev1.Event)
			expired := isEvent && e.Type == watch.Deleted // the API server deletes events after an hour
			if !ok || e.Type == watch.Bookmark || e.Type == watch.Error || o.GetName() == "purelb-allocator" || expired {
				continue
			}
			what := fmt.Sprintf("%T %s", o, o.GetName())
			if isEvent {
				what += " " + event.Reason + ": " + event.Message
			}
			writes.add(what)
		}
		if ctx.Err() == nil {
			w.t.Errorf("the watch of %T ended early", kind)
		}
	}()
}

// idle waits for ten seconds in which no agent writes more than its Lease.
func (w *world) idle(writes *writeLog) {
	w.t.Helper()
	since, leases := time.Now(), 0
	w.until(3*time.Minute, "only Leases are written", func() bool {
		wrote := writes.take()
		leases += len(wrote)
		others := slices.ContainsFunc(wrote, func(what string) bool { return !strings.HasPrefix(what, "*v1.Lease ") })
		if others || leases > len(lab.Nodes()) { // speakers take a new configuration one after the other, 8 s apart
			since, leases = time.Now(), 0
		}
		return time.Since(since) > 10*time.Second
	})
}
