// Package speaker has one node speak BGP: it observes what the cluster and the
// kernel say, has package peering decide, has the drivers act, and reports what
// came of it.
//
// It is one loop in one goroutine that owns all state, and all that is announced:
// an address that the kernel has is in BGP by the next turn of the loop. What
// takes longer, the making of sessions, the reading of tables and the writing of
// objects, runs beside it, and tells the loop what came of it.
//
// The speaker keeps what it has as long as it does not know everything. It
// remembers the last good input in a file, and begins with that when the API
// server is away. The deletion of the BGPConfiguration is seen by every node for
// itself, and each withdraws what it announces.
package speaker

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"purelb.io/purelb/internal/bfd"
	"purelb.io/purelb/internal/peering"
	"purelb.io/purelb/internal/process"
	"purelb.io/purelb/internal/routing"
)

// Server is what the speaker needs of a BGP server. It is safe for concurrent
// use. After Stop it may be applied again.
type Server interface {
	// Apply makes the server be wanted. What cannot be had is in the answer, and
	// the rest is applied. With restarting, neighbours are told that the process
	// restarts and may keep what they have from it.
	Apply(ctx context.Context, wanted peering.State, restarting bool) ([]peering.Problem, error)
	// Announce makes what this node originates be exactly routes, also before
	// there are neighbours.
	Announce(ctx context.Context, routes []peering.Route) error
	// Change adds or replaces some, and withdraws others.
	Change(ctx context.Context, add []peering.Route, withdraw []peering.RouteKey) error
	// Neighbors and Learned say what is so: the sessions, and the best routes of
	// neighbours.
	Neighbors(ctx context.Context) ([]peering.NeighborStatus, error)
	Learned(ctx context.Context) ([]peering.LearnedRoute, error)
	// Ended is how many BGP servers have ended. Each next one learns all routes anew.
	Ended() int
	// Down ends the session with a neighbour, if there is one.
	Down(ctx context.Context, neighbor netip.Addr) error
	// Bar ends the session with a neighbor and keeps it away until Admit.
	Bar(ctx context.Context, neighbor netip.Addr, reason string) error
	Admit(ctx context.Context, neighbor netip.Addr) error
	// Events signals that Neighbors or Learned may say something else.
	Events() <-chan struct{}
	// Stop ends all sessions. Graceful, neighbours keep the routes for a while.
	Stop(ctx context.Context, graceful bool) error
}

// Kernel is what the speaker needs of the network stack.
type Kernel interface {
	// Import tells of the addresses on interfaces that match patterns, until
	// ctx is done: first of all of them, then of what changes.
	Import(ctx context.Context, patterns []string, change func(come, gone []peering.Imported)) error
	// Interfaces are those that match patterns.
	Interfaces(ctx context.Context, patterns []string) ([]routing.InterfaceStatus, error)
	// Egress is how a neighbour is reached, if it is.
	Egress(ctx context.Context, neighbor netip.Addr, device string) (peering.Egress, bool, error)
	// Changes signals that the ways to others may have changed.
	Changes(ctx context.Context) (<-chan struct{}, error)
	// LinkLocalNeighbor is the one router on an interface, if it is known.
	LinkLocalNeighbor(ctx context.Context, iface string) (netip.Addr, bool, error)
	// Advertise sends Router Advertisements on an interface until ctx is done.
	Advertise(ctx context.Context, iface string) error
	// VRFTable is the routing table of a VRF device, if there is one.
	VRFTable(ctx context.Context, device string) (uint32, bool, error)
	// Program makes the kernel have what is wanted, and nothing of an earlier
	// process that is not.
	Program(ctx context.Context, wanted routing.Wanted) ([]routing.Problem, error)
}

// BFD is what the speaker needs of BFD.
type BFD interface {
	// Set makes the sessions be exactly these.
	Set(ctx context.Context, sessions []bfd.Session) error
	Status() []bfd.Status
	// Events tells of every change of a session.
	Events() <-chan bfd.Event
	// Close tells the neighbours that the sessions are ended on purpose.
	Close(ctx context.Context) error
}

// Cluster is what the speaker needs to know of the API server's objects.
type Cluster interface {
	// Read returns the objects as last seen. complete is false until all of
	// them were seen once.
	Read() (s Snapshot, complete bool)
	// Changed signals that Read may return something else.
	Changed() <-chan struct{}
}

// Reports is where the speaker says what is so. It does not wait for it to be
// written.
type Reports interface {
	// Node is what is so on this node.
	Node(NodeReport)
}

// Events are told about objects, as by events.Recorder.
type Events interface {
	Eventf(about runtime.Object, kind, reason, format string, args ...any)
}

// Options are what a Speaker needs. All but Endings, Memory and Written are
// required.
type Options struct {
	// Node is the name of this node, Namespace the one that PureLB is
	// installed in.
	Node, Namespace string
	// ConfigNamespaces are further namespaces of which ServiceGroups and
	// LBNodeAgents count; config.Everywhere stands for all.
	ConfigNamespaces []string

	Server  Server
	Kernel  Kernel
	BFD     BFD
	Cluster Cluster
	Reports Reports
	Events  Events
	Metrics *Metrics
	Log     *slog.Logger
	// Endings tells why this process ends. Without it, that is not known.
	Endings Endings
	// Memory is the file with the last good input; "": there is none.
	Memory string
	// Written returns an error when BGPNodeStatus is overdue; nil: never.
	Written func() error
}

// Speaker is the BGP speaker of a node. All of its state belongs to Run, but
// pulse and shown.
type Speaker struct {
	Options

	// input is what the cluster says, or said when it was known last. known is
	// false until there is any; seen says that this process has seen it.
	input       Input
	known, seen bool
	governing   governing
	imports     imports
	drain       drain
	sessions    sessions
	adverts     adverts
	exports     exports
	facts       facts
	penalties   penalties
	publishing  publishing
	reporter    reporter
	// told is what objects have heard of what their own routes cannot say.
	told objections
	// leaving says that the goodbye is being said.
	leaving bool

	// life lasts until the goodbye is said, and fatal is why this process
	// cannot go on.
	life  context.Context
	fatal error

	beside beside
	keeper keeper
	pulse  process.Pulse
	shown  atomic.Pointer[stateShown]
}

// New returns a Speaker that does nothing before Run.
func New(opt Options) *Speaker {
	s := &Speaker{Options: opt, beside: beside{notes: make(chan note)}}
	s.imports = imports{batches: make(chan batch), rules: map[string]*importer{}, members: map[peering.RouteKey][]peering.Imported{}}
	s.adverts, s.penalties = adverts{}, penalties{}
	s.reporter = reporter{node: opt.Node, log: opt.Log, events: opt.Events}
	return s
}

const (
	// fullCheck is how often everything is looked at even if nothing is said
	// to have changed.
	fullCheck = time.Minute
	// kernelPause is the pause after the ways to neighbours were looked at. On
	// a busy node links and routes come and go all the time.
	kernelPause = 250 * time.Millisecond
	// actLimit is how long something beside the loop may take.
	actLimit = 30 * time.Second
	// retryMin and retryMax are the pauses after something failed.
	retryMin, retryMax = time.Second, 30 * time.Second
	// patience is how long a start waits for the API server before it begins
	// with what is remembered: a configuration that was changed or deleted
	// meanwhile is not to come back for a moment.
	patience = 2 * time.Second
)

// A note is for the loop to take in, at now.
type note func(ctx context.Context, now time.Time)

// beside is what runs beside the loop.
type beside struct {
	wait  sync.WaitGroup
	notes chan note
}

// start runs an errand, within its time, and has the loop take in the note that
// it returns, if it is not nil.
func (b *beside) start(ctx context.Context, errand func(ctx context.Context) note) {
	b.wait.Go(func() {
		limited, cancel := context.WithTimeout(ctx, actLimit)
		defer cancel()
		n := errand(limited)
		if n == nil {
			return
		}
		select {
		case b.notes <- n:
		case <-ctx.Done():
		}
	})
}
