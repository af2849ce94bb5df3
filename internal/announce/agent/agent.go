// Package agent keeps the service addresses of one node. It observes the cluster and the
// kernel, lets package announce decide, applies the difference and reports what changed.
//
// It is one loop in one goroutine that owns all state. An event in the cluster, on another
// node or in the kernel only starts another pass of the loop, and every pass reads the world
// anew. Slow work runs in the background and returns its result to the loop. Read the files
// in this order:
//
//	agent      what the agent needs
//	setup      how its program is built
//	loop       one pass after another, and what a pass leaves to do: tasks, and the time of the next pass
//	depart     the end: addresses stay, go to other nodes, or go
//	caches     the objects of the API server, and what the agent keeps of them
//	observe    the world of a pass
//	apply      what a pass changes in the kernel, asks a segment and tells other nodes
//	segment    the links that lead to no other machine
//	gate       what this node must not attract yet
//	kubeproxy  the questions to kube-proxy
//	fabric     the answers that do not count: of machines that answer for every address, and for dead nodes
//	garp       the announcements on a segment, and their pace
//	conflicts  the other machines that claim our addresses
//	report     events, logs and problems
//	slots      the annotations
//	metrics, serve, probe
//	           what people and programs can read and ask for
//
// Between two passes the agent keeps only what it cannot read anew:
//
//	addresses  one record for each address: the machine that answered a probe, the offers of other
//	           nodes and those to other nodes, how often it vanished, why it failed, and when to
//	           announce it next. Each part is kept as long as it matters
//	pacer      the announcements that wait for their turn
//	held       the addresses of this agent after the last pass
//	conflicts  the other machines that have addresses of Services: until 10 minutes after
//	           this node last heard a machine. The Lease of the node names them, so that the
//	           allocator allocates none of these addresses
//	segments   the links that lead to no other machine, by the last probes there
//	links      the links of the last observation
//	networks   the networks that vanished from links that work: for 5 s
//	removals   when programs of the node took addresses off: for ten minutes
//	gate       whether kube-proxy has worked since the agent started, and the Services with the
//	           policy Local whose endpoints here it serves
//	reporter   the past reports, so that nothing is reported twice
//	idle       the Services that lost their endpoints, and when: until they have some again
//	node       the Node that was seen last: if the Node was deleted, an agent that leaves
//	           uses it to hand over
//
// The next agent on the node starts with none of this. The conflicts that the Lease names
// stay there for 10 minutes (package lease).
//
// The agent keeps its addresses as long as its view is incomplete: before its caches are
// complete, while the API server is away, and when the kernel gives a partial answer. An
// agent that restarts removes only addresses that another node has just taken from it: the next
// agent on the node finds the others in place and adopts them. Package ending decides what other
// ends of the process do.
package agent

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/nodes/lease"
	"purelb.io/purelb/internal/nodes/membership"
	"purelb.io/purelb/internal/process"
)

// Cluster is what the agent reads of the API server's objects.
type Cluster interface {
	// Read returns the objects as last seen. complete is false until the agent has seen all of
	// them once.
	Read() (s Snapshot, complete bool)
	// Endpoints returns where these Services have endpoints, by "namespace/name", as far as
	// that is known. From now on, only changes of these endpoints signal a change.
	Endpoints(services map[string]bool) (ready, ending announce.Endpoints)
	// NodeUnreachable reports whether the API server says that the kubelet of node has not been heard for
	// most of a minute.
	NodeUnreachable(ctx context.Context, node string) (bool, error)
	// Changed signals that Read may return something else.
	Changed() <-chan struct{}
}

// Snapshot holds the objects of the cluster that matter to this node. They are shared and
// read-only.
type Snapshot struct {
	// Node is this node, or nil if it has no object.
	Node *corev1.Node
	// Services are those that PureLB announces.
	Services []*Service
	Groups   []v2.ServiceGroup
	Agents   []v2.LBNodeAgent
}

// Annotations takes the announcing annotations that the agent wants.
type Annotations interface {
	// Want replaces all pending writes by writes, which are by "namespace/name" of the
	// Service. It does not wait for them.
	Want(writes map[string]Write)
}

// Events writes events about objects, like events.Recorder.
type Events interface {
	Eventf(about runtime.Object, kind, reason, format string, args ...any)
}

// Options holds what an Agent needs. All fields but Departures, KubeProxy, Handover, Callers and
// Gossip are required.
type Options struct {
	// Node is the name of this node. Namespace is the install namespace of PureLB.
	Node, Namespace string
	// ConfigNamespaces are further namespaces whose ServiceGroups and LBNodeAgents the agent
	// uses. config.Everywhere means all namespaces.
	ConfigNamespaces []string

	Kernel      Kernel
	Cluster     Cluster
	Peers       Peers
	Annotations Annotations
	// Departures tells why the process ends. With nil, the end changes no address.
	Departures Departures
	// KubeProxy is this node's kube-proxy. With nil, the agent does not wait for it.
	KubeProxy KubeProxy
	// Handover is how long to wait for another node to take an address that this node gives
	// up. The default is announce.HandoverLimit.
	Handover time.Duration
	Events   Events
	Metrics  *Metrics
	Log      *slog.Logger
	// Callers admits people who ask for a probe. If it is nil, the agent answers no such
	// request.
	Callers Callers
	// Gossip is the address of this node at which the other agents reach it at the start, or the zero
	// value without gossip.
	Gossip netip.AddrPort
}

// Agent is the node agent. Only Run touches its state, except pulse, shown, held.links,
// segments.questions, listening.asking and pacer.
type Agent struct {
	Options
	config    parsed
	soft      soft
	endings   announce.Endings
	idle      announce.IdleDamping
	returns   announce.Returns
	addresses announce.Addresses
	conflicts announce.Conflicts
	// inherited says that conflicts has those of the agent before this one.
	inherited bool
	held      heldAddresses
	segments  segments
	listening listening
	pacer     *pacer
	// links are the links of the last observation.
	links    []announce.Link
	networks announce.Networks
	removals announce.Removals
	// remote is the link of the remote addresses that were here after the last pass, or "".
	remote string
	// planned is when the next pass is to begin without an event. A pass that is later by stopped shows that
	// this process or its machine was stopped. Its addresses may have expired then, and others have them.
	planned time.Time
	// kubelets says when the agent last asked about the kubelet of another node.
	kubelets map[string]time.Time
	gate     gate
	// gossip is the present gossip address of this node.
	gossip netip.AddrPort
	// noDummy says why the link for remote addresses could not be created, or is "".
	noDummy string
	// open says why the ports of this node are open at the addresses of Services, or is "".
	open string
	// burst notices that many addresses came or went.
	burst process.Burst
	// node is the last object of this node.
	node *corev1.Node
	// leaving says why this node must have no local address any more, or is "".
	leaving    string
	reporter   reporter
	background background
	pulse      process.Pulse
	shown      atomic.Pointer[shown]
	prober     *prober
}

// New returns an Agent that does nothing before Run.
func New(opt Options) *Agent {
	opt.Handover = cmp.Or(opt.Handover, announce.HandoverLimit)
	a := &Agent{
		Options:    opt,
		gossip:     opt.Gossip,
		addresses:  announce.Addresses{Self: opt.Node, Limit: opt.Handover},
		conflicts:  announce.Conflicts{},
		pacer:      newPacer(),
		kubelets:   map[string]time.Time{},
		gate:       gate{open: opt.KubeProxy == nil, asked: map[announce.ServiceFamily]*question{}},
		segments:   segments{silent: map[linkFamily]bool{}, silentLinks: map[indexedLink]bool{}, proxies: map[proxy]bool{}, unaskable: map[string]bool{}},
		reporter:   reporter{node: opt.Node, log: opt.Log, events: opt.Events, metrics: opt.Metrics},
		background: background{completions: make(chan completion)},
	}
	a.prober = newProber(a, opt.Callers)
	return a
}

const (
	// fullCheck is how often the loop checks everything, even without a signal of a change.
	fullCheck = time.Minute
	// passLimit limits how long one pass may take.
	passLimit = 30 * time.Second
	// stopped is how late a pass may be before the agent assumes that it was stopped.
	stopped = time.Second
	// maxPause is the longest pause between passes when there is work. After a pass the loop
	// pauses for as long as the pass took, so that a storm of changes takes half of the time
	// at most.
	maxPause = 250 * time.Millisecond
	// afterwards is the pause before the loop checks that new addresses have stayed, and whether it
	// can return memory.
	afterwards = time.Second
	// retryMin and retryMax limit the pauses after failed passes.
	retryMin, retryMax = time.Second, 30 * time.Second
)

// Kernel is what the agent needs of the network stack.
type Kernel interface {
	// Observe returns the state of this node: all of it, or an error. The agent removes what
	// it does not want, and must not take "not seen" for "not there".
	Observe(ctx context.Context) (announce.Node, error)
	// Addresses returns all addresses of this node, or an error. It reads no routes, of which a
	// node may have a million.
	Addresses(ctx context.Context) ([]announce.Address, error)
	// Changes signals that Observe may return something else, until ctx is done. It may leave
	// out changes that this agent made to addresses.
	Changes(ctx context.Context) (<-chan struct{}, error)
	// Put adds or updates the addresses. It does what it can. The error joins an
	// announce.AddressError for each that failed.
	Put(ctx context.Context, addresses []announce.Address) error
	// Remove takes the addresses off, and fails like Put. An address that is not there is not
	// an error.
	Remove(ctx context.Context, addresses []announce.Address) error
	// EnsureDummy creates the link for remote addresses unless it exists.
	EnsureDummy(ctx context.Context, name string) error
	// RemoveDummies deletes the links that EnsureDummy created and that carry no address.
	RemoveDummies(ctx context.Context) error
	// Guard closes the ports of this node's programs at these addresses, and at no other: only
	// what kube-proxy translates arrives there. Without addresses it leaves nothing behind.
	Guard(ctx context.Context, closed []netip.Addr) error
	// Claim announces once on the segment of a link that the address is here.
	Claim(ctx context.Context, link string, address netip.Addr) error
	// Probe asks the segment of a link which machines have the addresses, and returns
	// the MACs of all that answered, for each address. It fails if an answer could have
	// been missed.
	Probe(ctx context.Context, link string, addresses []netip.Addr, p announce.Probing) (announce.Answers, error)
	// Listen returns what machines say on the wire about the addresses that mine returns, with
	// their links, until ctx is done. Another link of this node may be such a machine. It calls
	// mine in another goroutine.
	Listen(ctx context.Context, mine func() map[netip.Addr]string) (<-chan announce.Heard, error)
}

// Peers is what the agent needs to know of the other nodes, and what it tells them. The
// source, Leases or gossip, does not matter to the agent.
type Peers interface {
	// Publish sets what the other nodes may know of this node from now on.
	Publish(r lease.Record)
	// Inherited returns what the agent before this one heard of other machines, as soon as that is
	// known. The Lease keeps these claims until Publish names others.
	Inherited() (all []lease.Heard, known bool)
	// Peers returns the present view of all nodes.
	Peers() election.Peers
	// Changed signals that Peers returns something else.
	Changed() <-chan struct{}
	// Send delivers message to the agent of node. Only an answer proves that the agent read
	// it.
	Send(ctx context.Context, node string, message []byte) error
	// Received delivers the messages that agents of other nodes Send.
	Received() <-chan membership.Message
	// Leave says goodbye for good, so that the other nodes need not wait until they miss this
	// one. A later Publish has no effect.
	Leave(ctx context.Context) error
	// State returns what /state shows of gossip. Other goroutines call it.
	State() any
}
