// Package agent keeps the service addresses of one node: it observes the cluster
// and the kernel, has package announce decide, applies the difference and
// reports what changed.
//
// It is one loop in one goroutine that owns all state. Whatever happens, in the
// cluster, among the nodes or in the kernel, only makes the loop go round once
// more: every pass reads the world anew, and nothing is believed beside it. What
// takes long, the writing of annotations, goes on elsewhere (Slots).
//
// The agent keeps what it has as long as it does not know everything: before its
// caches are complete, while the API server is away, and when the kernel gives a
// partial answer. It ends without touching an address, so that the next agent on
// the node finds them in place and adopts them.
package agent

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/election"
	"purelb.io/purelb/internal/lease"
)

// Kernel is what the agent needs of the network stack.
type Kernel interface {
	// Observe returns what is on this node: all of it, or an error. The agent
	// removes what it does not want, and must not take "not seen" for "not
	// there".
	Observe(ctx context.Context) (announce.Node, error)
	// Changes signals that Observe may return something else, until ctx is
	// done.
	Changes(ctx context.Context) (<-chan struct{}, error)
	// Put makes the addresses be as they say. It does what it can; the error
	// joins an announce.AddressError for each that failed.
	Put(ctx context.Context, addresses []announce.Address) error
	// Remove takes the addresses off, and fails like Put. Removing what is not
	// there is not an error.
	Remove(ctx context.Context, addresses []announce.Address) error
	// EnsureDummy makes sure that the link for remote addresses is there.
	EnsureDummy(ctx context.Context, name string) (kind string, err error)
	// Claim tells the segment of a link once that the address is here.
	Claim(ctx context.Context, link string, address netip.Addr) error
}

// Cluster is what the agent needs to know of the API server's objects.
type Cluster interface {
	// Read returns the objects as last seen. complete is false until all of
	// them were seen once.
	Read(ctx context.Context) (s Snapshot, complete bool, err error)
	// Changed signals that Read may return something else.
	Changed() <-chan struct{}
}

// Snapshot is the objects of the cluster that matter to this node. They are
// shared, and read only.
type Snapshot struct {
	// Node is this node, nil when it has no object.
	Node *corev1.Node
	// Services are all those of type LoadBalancer.
	Services []corev1.Service
	Groups   []v2.ServiceGroup
	Agents   []v2.LBNodeAgent
	// Ready says of the Services whose traffic policy is Local whether this
	// node has a ready endpoint. It misses those of which that is not known.
	Ready map[string]bool
}

// Peers is what the agent needs to know of the other nodes, and what it tells
// them. Where the knowledge comes from (Leases, gossip) does not matter to it.
type Peers interface {
	// Publish says what the others may know of this node from now on.
	Publish(r lease.Record)
	// Peers returns what is known of all nodes.
	Peers() election.Peers
	// Changed signals that Peers returns something else.
	Changed() <-chan struct{}
}

// Annotations is where the agent writes who announces what.
type Annotations interface {
	// Want says what is to be written, by "namespace/name" of the Service, in
	// place of all that is not written yet. It does not wait for it.
	Want(writes map[string]Write)
}

// Options are what an Agent needs. All are required.
type Options struct {
	// Node is the name of this node, Namespace the one that PureLB is
	// installed in.
	Node, Namespace string

	Kernel      Kernel
	Cluster     Cluster
	Peers       Peers
	Annotations Annotations
	Events      record.EventRecorder
	Metrics     *Metrics
	Log         *slog.Logger
}

// Agent is the node agent. All of its state belongs to Run, but pulse.
type Agent struct {
	Options
	config   parsed
	claims   claims
	losses   losses
	reporter reporter
	pulse    pulse
}

// New returns an Agent that does nothing before Run.
func New(opt Options) *Agent {
	return &Agent{
		Options:  opt,
		claims:   claims{},
		losses:   losses{},
		reporter: reporter{node: opt.Node, log: opt.Log, events: opt.Events, metrics: opt.Metrics},
	}
}

const (
	// fullCheck is how often the world is looked at even if nothing is said
	// to have changed.
	fullCheck = time.Minute
	// passLimit is how long one pass may take.
	passLimit = 30 * time.Second
	// maxPause is the longest pause between passes when there is work. A pass
	// is followed by a pause as long as itself, so that a storm of changes
	// takes half of the time at most.
	maxPause = 250 * time.Millisecond
	// retryMin and retryMax are the pauses after passes that failed.
	retryMin, retryMax = time.Second, 30 * time.Second
)

// Run keeps the node's addresses until ctx is done.
func (a *Agent) Run(ctx context.Context) error {
	kernel, err := a.Kernel.Changes(ctx)
	if err != nil {
		return err
	}
	var failing string
	retry := retryMin
	for ctx.Err() == nil {
		began := time.Now()
		next, err := a.guardedPass(ctx, began)
		if err == nil {
			retry = retryMin
		} else {
			if again := time.Now().Add(retry); next.IsZero() || again.Before(next) {
				next = again
			}
			retry = min(2*retry, retryMax)
			a.Metrics.passErrors.Inc()
		}
		failing = a.logFailure(ctx, err, failing)
		pause(ctx, min(time.Since(began), maxPause))
		a.wait(ctx, kernel, time.Until(next))
	}
	return nil
}

// wait returns when there is something to do.
func (a *Agent) wait(ctx context.Context, kernel <-chan struct{}, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-kernel:
	case <-a.Cluster.Changed():
	case <-a.Peers.Changed():
	case <-timer.C:
	}
}

// guardedPass is pass within its time limit, with its pulse taken.
func (a *Agent) guardedPass(ctx context.Context, now time.Time) (next time.Time, err error) {
	a.pulse.begin(now)
	defer a.pulse.end()
	ctx, cancel := context.WithTimeout(ctx, passLimit)
	defer cancel()
	return a.pass(ctx, now)
}

// logFailure logs err unless it is the same as last time.
func (a *Agent) logFailure(ctx context.Context, err error, last string) string {
	switch {
	case ctx.Err() != nil: // whatever failed, it was to end
	case err == nil && last != "":
		a.Log.InfoContext(ctx, "recovered", "node", a.Node)
	case err != nil && err.Error() != last:
		a.Log.WarnContext(ctx, "passFailed", "node", a.Node, "error", err)
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
