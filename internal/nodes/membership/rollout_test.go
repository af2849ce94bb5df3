package membership

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/nodes/lease"
)

// A rollout restarts the agent of one node every restartEvery. Each agent is missing for the time
// missing.
const restartEvery, missing = 5 * time.Second, 2 * time.Second

// TestRolloutAddsNoLeaseWrites counts in virtual time how often a node writes its Lease. It compares
// a rollout of the other agents with a time without restarts.
func TestRolloutAddsNoLeaseWrites(t *testing.T) {
	for _, nodes := range []int{4, 100, 1000} {
		const restarts = 20 // a part of a large rollout
		var quiet, rollout int
		synctest.Test(t, func(t *testing.T) { quiet = newWriter(t, nodes).writesDuring(restarts, func(int) string { return "" }) })
		synctest.Test(t, func(t *testing.T) {
			rollout = newWriter(t, nodes).writesDuring(restarts, func(i int) string { return peerName(1 + i%(nodes-1)) })
		})
		t.Logf("%d nodes: %d Lease writes of a node during %d restarts, %d without restarts", nodes, rollout, restarts, quiet)
		if rollout > quiet {
			t.Errorf("%d nodes: %d restarts make a node write its Lease %d times, want %d as without restarts", nodes, restarts, rollout, quiet)
		}
	}
}

func peerName(i int) string { return fmt.Sprint("node-", i) }

// writer is the membership of one node in a large cluster. The test provides the state of gossip.
type writer struct {
	*Membership
	nodes  int
	client *countingClient
}

func newWriter(t *testing.T, nodes int) *writer {
	client := &countingClient{}
	w := &writer{New(Options{
		Lease: lease.Options{
			Client: client, Node: peerName(0), Duration: 10 * time.Second, RenewDeadline: 7 * time.Second, RetryPeriod: 2 * time.Second,
			Random: func() float64 { return 1 },
		},
		Log: slog.New(slog.DiscardHandler),
	}), nodes, client}
	w.mode.alone, w.mode.began = false, time.Now()
	w.tell("")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.leases.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	w.leases.Publish(lease.Record{})
	return w
}

// tell reports all nodes but lost as alive in gossip.
func (w *writer) tell(lost string) {
	e := election.Evidence{Self: peerName(0), Settled: true}
	for i := range w.nodes {
		one := election.Gossiped{Record: election.Record{Node: peerName(i)}}
		if one.Node == lost {
			one.State, one.Since = election.Dead, time.Now()
		}
		e.Gossip = append(e.Gossip, one)
		e.Leases = append(e.Leases, election.Leased{Record: one.Record, Alive: true, Slow: true})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.merge(e, true, time.Now())
}

// writesDuring counts the writes while so many nodes restart one after another.
func (w *writer) writesDuring(restarts int, which func(i int) string) int {
	for i := range restarts {
		w.tell(which(i))
		time.Sleep(missing)
		w.tell("")
		time.Sleep(restartEvery - missing)
	}
	synctest.Wait()
	return w.client.writes
}

// countingClient is an API server with one Lease. It counts the writes to that Lease.
type countingClient struct {
	coordination.LeaseInterface
	mu     sync.Mutex // guards all below
	stored coordinationv1.Lease
	writes int
}

// answering is the duration of each request.
const answering = time.Millisecond

func (c *countingClient) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	time.Sleep(answering)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stored.DeepCopy(), nil
}

func (c *countingClient) Create(ctx context.Context, o *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return c.Update(ctx, o, metav1.UpdateOptions{})
}

func (c *countingClient) Update(_ context.Context, o *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	time.Sleep(answering)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	c.stored = *o.DeepCopy()
	c.stored.ResourceVersion = "1"
	return c.stored.DeepCopy(), nil
}

func (c *countingClient) List(context.Context, metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	time.Sleep(answering)
	c.mu.Lock()
	defer c.mu.Unlock()
	return &coordinationv1.LeaseList{Items: []coordinationv1.Lease{*c.stored.DeepCopy()}}, nil
}
