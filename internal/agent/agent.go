// Package agent keeps the service addresses of one node: it observes the cluster
// and the kernel, has package announce decide, applies the difference and
// reports what changed.
//
// It is one loop in one goroutine that owns all state. Whatever happens, in the
// cluster, among the nodes or in the kernel, only makes the loop go round once
// more: every pass reads the world anew, and nothing is believed beside it. What
// takes long, the writing of annotations, goes on elsewhere (Slots).
//
// What only the wire tells cannot be read anew, and is kept for some time: who answers
// a probe (announce.Takeovers), and which other machines have addresses of Services
// (conflicts). The agent reports those machines in its Lease, so that the allocator
// hands out none of these addresses. It forgets a machine 10 minutes after it heard it
// last, and all of them when it restarts.
//
// The agent keeps what it has as long as it does not know everything: before its
// caches are complete, while the API server is away, and when the kernel gives a
// partial answer. It ends without touching an address, so that the next agent on
// the node finds them in place and adopts them.
package agent

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/election"
	"purelb.io/purelb/internal/process"
)

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
	// Services are those that are ours to announce.
	Services []*Service
	Groups   []v2.ServiceGroup
	Agents   []v2.LBNodeAgent
	// Endpoints are the nodes with a ready endpoint, by Service, and Ending those
	// that have none such, but one that ends and serves still: of the Services
	// whose endpoints matter and are known.
	Endpoints map[string][]string
	Ending    map[string][]string
}

// Annotations is where the agent writes who announces what.
type Annotations interface {
	// Want says what is to be written, by "namespace/name" of the Service, in
	// place of all that is not written yet. It does not wait for it.
	Want(writes map[string]Write)
}

// Events are told about objects, as by events.Recorder.
type Events interface {
	Eventf(about runtime.Object, kind, reason, format string, args ...any)
}

// Options are what an Agent needs. All but Departures, Handover and State are required.
type Options struct {
	// Node is the name of this node, Namespace the one that PureLB is
	// installed in.
	Node, Namespace string
	// ConfigNamespaces are further namespaces of which ServiceGroups and
	// LBNodeAgents count; config.Everywhere stands for all.
	ConfigNamespaces []string

	Kernel      Kernel
	Cluster     Cluster
	Peers       Peers
	Annotations Annotations
	// Departures tells what the end of the process means. Without it, it means
	// nothing to the addresses.
	Departures Departures
	// Handover is how long to wait for another node to take an address that
	// this one is to give up. Without it, it is announce.HandoverLimit.
	Handover time.Duration
	Events   Events
	Metrics  *Metrics
	Log      *slog.Logger
	// State are more parts of what /state shows, by name. They are called from
	// elsewhere.
	State map[string]func() any
}

// Agent is the node agent. All of its state belongs to Run, but pulse, shown,
// standing and a part of held.
type Agent struct {
	Options
	config    parsed
	contests  election.Contests
	soft      soft
	endings   endings
	takeovers announce.Takeovers
	handovers announce.Handovers
	conflicts announce.Conflicts
	addresses addresses
	held      heldAddresses
	unheard   unheard
	// silent are the segments on which no machine answered when the agent asked last,
	// although nodes should have.
	silent map[side]bool
	// silentLinks are the links on which standing questions are not answered, and
	// standing are these questions, for watchLinks.
	silentLinks map[string]bool
	standing    atomic.Pointer[[]standing]
	// claiming says that gratuitous ARP is not switched off.
	claiming bool
	// burst is of addresses.
	burst process.Burst
	// leaving is why this node is to have no local address any more, or "".
	leaving  string
	reporter reporter
	beside   beside
	pulse    process.Pulse
	shown    atomic.Pointer[shown]
}

// New returns an Agent that does nothing before Run.
func New(opt Options) *Agent {
	opt.Handover = cmp.Or(opt.Handover, announce.HandoverLimit)
	return &Agent{
		Options:   opt,
		takeovers: announce.Takeovers{Self: opt.Node, Limit: opt.Handover},
		handovers: announce.Handovers{Limit: opt.Handover},
		conflicts: announce.Conflicts{},
		addresses: addresses{},
		silent:    map[side]bool{},

		silentLinks: map[string]bool{},
		reporter:    reporter{node: opt.Node, log: opt.Log, events: opt.Events, metrics: opt.Metrics},
		beside:      beside{notes: make(chan note)},
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
	// afterwards is when it is looked whether what was added has stayed, and
	// whether there is memory to give back.
	afterwards = time.Second
	// retryMin and retryMax are the pauses after passes that failed.
	retryMin, retryMax = time.Second, 30 * time.Second
)
