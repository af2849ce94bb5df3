// Package speaker lets one node speak BGP. It observes the cluster and the kernel, lets
// package peering decide, applies the decision through the drivers, and reports the result.
//
// One loop in one goroutine owns all state and all announcements. The next turn of the loop
// announces a new address of the kernel by BGP. Slow work runs in the background and sends its
// result to the loop: the setup of sessions, the reading of tables and the writing of objects.
//
// The speaker keeps its state as long as its view is incomplete. It stores the last good input in a
// file, and starts with it when the API server is away. After the deletion of the BGPConfiguration,
// each node withdraws its own routes.
//
// Read the files in this order:
//
//	speaker.go, loop.go       the speaker and its loop
//	facts.go                  what the loop knows of the cluster and the kernel
//	govern.go                 an edit of the configuration, until it is applied
//	restricted.go             the routes that may be announced
//	imports.go, exports.go    addresses of the kernel, and routes into its tables
//	sessions.go, taken.go     BFD, and neighbors that another program has
//	drain.go, depart.go       nodes that are to be avoided, and the end
//	report.go, nodestatus.go  what users see, and writer.go its writing
package speaker

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/bgp/bfd"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/bgp/routing"
	"purelb.io/purelb/internal/process"
)

// Server is what the speaker needs of a BGP server. It is safe for concurrent use. The
// speaker may call Apply again after Stop.
type Server interface {
	// Apply makes wanted the state of the server. It applies what it can, and returns the rest
	// as problems. With restarting, it tells neighbors that the process restarts, so that they
	// may keep its routes. The error is gobgp.ErrRestart if only a new process can apply wanted.
	Apply(ctx context.Context, wanted peering.State, restarting bool) ([]peering.Problem, error)
	// Change adds or replaces some routes of a server that runs, and withdraws others.
	Change(ctx context.Context, add []peering.Route, withdraw []netip.Prefix) error
	// Neighbors returns the sessions, and Learned the best routes of neighbors.
	Neighbors(ctx context.Context) ([]peering.NeighborStatus, error)
	Learned(ctx context.Context) ([]peering.LearnedRoute, error)
	// Down ends the session with a neighbor, if there is one.
	Down(ctx context.Context, neighbor netip.Addr) error
	// Events signals that Neighbors or Learned may return something else.
	Events() <-chan struct{}
	// Stop ends all sessions. If graceful, neighbors keep the routes for a while.
	Stop(ctx context.Context, graceful bool) error
}

// Kernel is what the speaker needs of the network stack.
type Kernel interface {
	// Import calls change with all addresses on interfaces that match patterns, and then with
	// each change, until ctx is done.
	Import(ctx context.Context, patterns []string, change func(come, gone []peering.Imported)) error
	// Interfaces returns the interfaces that match patterns.
	Interfaces(ctx context.Context, patterns []string) ([]peering.Interface, error)
	// Egress returns how this node reaches a neighbor. The bool is false if the node has no route
	// to the neighbor.
	Egress(ctx context.Context, neighbor netip.Addr, device string) (peering.Egress, bool, error)
	// Gateway returns the default gateway of a family. It ignores routes with the protocol number
	// ownProtocol. The bool is false if there is none.
	Gateway(ctx context.Context, f addr.Family, ownProtocol int) (netip.Addr, bool, error)
	// Taken returns the local end of a BGP session that another program on this node has with a
	// neighbor at a port. The bool is false if there is none.
	Taken(ctx context.Context, neighbor netip.Addr, port uint16) (netip.AddrPort, bool, error)
	// Changes signals that the paths to neighbors may have changed.
	Changes(ctx context.Context) (<-chan struct{}, error)
	// LinkLocalNeighbor returns the one router on an interface, if the kernel knows it.
	LinkLocalNeighbor(ctx context.Context, iface string) (netip.Addr, bool, error)
	// Advertise sends Router Advertisements on an interface until ctx is done.
	Advertise(ctx context.Context, iface string)
	// Program puts the wanted routes into the kernel, and returns what became of each. Without keep, it removes
	// all other routes that this program ever added.
	Program(ctx context.Context, wanted []routing.Route, keep bool) ([]peering.Exported, error)
}

// BFD is what the speaker needs of BFD.
type BFD interface {
	// Set makes sessions the exact set of BFD sessions.
	Set(ctx context.Context, sessions []bfd.Session) error
	Status() []bfd.Status
	// Events carries every change of a session.
	Events() <-chan bfd.Event
	// Close tells the neighbors that the sessions end on purpose.
	Close(ctx context.Context) error
}

// Cluster is what the speaker reads of the API server's objects.
type Cluster interface {
	// Read returns the objects as last seen. complete is false until the speaker has seen all
	// of them once.
	Read() (s intent.Snapshot, complete bool)
	// Changed signals that Read may return something else.
	Changed() <-chan struct{}
	// OthersServe reports whether a ready node without the label
	// node.kubernetes.io/exclude-from-external-load-balancers has a session with a router.
	OthersServe(ctx context.Context) (bool, error)
}

// Reports takes the reports of the speaker. It returns before they are written.
type Reports interface {
	// Node takes the report of this node.
	Node(NodeReport)
}

// Events writes events about objects, like events.Recorder.
type Events interface {
	Eventf(about runtime.Object, kind, reason, format string, args ...any)
}

// Options holds what a Speaker needs. All fields but Endings, Restart and Memory are required.
type Options struct {
	// Node is the name of this node. Namespace is the install namespace of PureLB.
	Node, Namespace string
	// ConfigNamespaces are further namespaces whose ServiceGroups and LBNodeAgents the speaker
	// uses. config.Everywhere means all namespaces.
	ConfigNamespaces []string

	Server  Server
	Kernel  Kernel
	BFD     BFD
	Cluster Cluster
	Reports Reports
	Events  Events
	Metrics *Metrics
	Log     *slog.Logger
	// Endings tells why this process ends. With nil, the cause is unknown.
	Endings Endings
	// Restart ends ctx of Run, because the program must start anew to apply the configuration. It is called only
	// if Server returns gobgp.ErrRestart.
	Restart func()
	// Memory is the file with the last good input. "" means: no file.
	Memory string
}

// Speaker is the BGP speaker of a node. Run owns all of its state except for pulse and published.
type Speaker struct {
	Options

	// input is the last known configuration. known is false until there is one. seen says that
	// this process has read one from the API server.
	input       intent.Input
	known, seen bool
	// owned has the prefixes of input.Own.
	owned     peering.Coverage
	governing governing
	imports   imports
	drain     drain
	// looking asks for nodes without the exclude label. unmarked says that this process has seen its node
	// without a mark.
	looking    backoff.Schedule
	unmarked   bool
	weighing   weighing
	sessions   sessions
	taken      taken
	adverts    adverts
	exports    exports
	facts      facts
	penalties  penalties
	publishing publishing
	reporter   reporter
	// leaving says that the speaker is ending its sessions.
	leaving bool

	// life lasts until the sessions have ended. fatal is why this process cannot go on.
	life  context.Context
	fatal error

	background  background
	inputWriter inputWriter
	pulse       process.Pulse
	published   atomic.Pointer[standing]
}

// New returns a Speaker that does nothing before Run.
func New(opt Options) *Speaker {
	s := &Speaker{Options: opt, background: background{completions: make(chan completion)}}
	s.imports = imports{batches: make(chan batch), members: map[netip.Prefix][]peering.Imported{}, pending: map[netip.Prefix]bool{}, retry: failures}
	s.governing.Schedule = backoff.Schedule{Every: fullCheck, Retry: failures}
	s.exports.Schedule = backoff.Schedule{Rest: restTimes, Most: rereadEvery, Retry: failures}
	s.facts.Schedule = backoff.Schedule{Rest: restTimes, Most: rereadEvery}
	s.facts.quiet = backoff.Pauses{Min: rereadEvery, Max: fullCheck}
	s.adverts, s.penalties, s.weighing.waiting = adverts{}, penalties{}, peering.Weights{}
	s.reporter = reporter{node: opt.Node, log: opt.Log, events: opt.Events}
	return s
}

const (
	// fullCheck is how often the loop checks everything, even without a signal of a change.
	fullCheck = time.Minute
	// kernelPause is the pause after a check of the paths to neighbors. On a busy node links and
	// routes change all the time.
	kernelPause = 250 * time.Millisecond
	// actLimit limits how long a task may take.
	actLimit = 30 * time.Second
	// retryMin and retryMax limit the pauses after a failure.
	retryMin, retryMax = time.Second, 30 * time.Second
	// restTimes is the pause after a run, as a multiple of the duration of the run. Without it, a
	// full Internet table would keep the speaker busy all the time.
	restTimes = 10
	// patience is how long a new process waits for the API server before it uses the stored input.
	// The configuration may have been changed or deleted since, and the stored one must not take
	// effect for a moment.
	patience = 2 * time.Second
)

// failures are the pauses after failures.
var failures = backoff.Pauses{Min: retryMin, Max: retryMax}

// The loop runs a completion at now, because a completion changes the state of the loop.
type completion func(ctx context.Context, now time.Time)

// background holds the running tasks.
type background struct {
	wait        sync.WaitGroup
	completions chan completion
}

// onLoop makes the loop run do, and waits for that. It returns false if ctx ends before.
func (b *background) onLoop(ctx context.Context, do completion) bool {
	done := make(chan struct{})
	select {
	case b.completions <- func(ctx context.Context, now time.Time) {
		defer close(done)
		do(ctx, now)
	}:
		<-done
		return true
	case <-ctx.Done():
		return false
	}
}

// start runs a task for actLimit at most. The loop runs the completion that the task returns, if it
// is not nil.
func (b *background) start(ctx context.Context, task func(ctx context.Context) completion) {
	b.wait.Go(func() {
		limited, cancel := context.WithTimeout(ctx, actLimit)
		defer cancel()
		n := task(limited)
		if n == nil {
			return
		}
		select {
		case b.completions <- n:
		case <-ctx.Done():
		}
	})
}
