// Package agent keeps the service addresses of one node: it observes the cluster
// and the kernel, has package announce decide, applies the difference and
// reports what changed.
//
// It is one loop in one goroutine that owns all state (loop.go). Whatever happens, in the
// cluster, among the nodes or in the kernel, only makes the loop go round once
// more: every pass (pass.go) reads the world anew. What takes long runs in the background
// and returns to the loop; Slots writes the annotations.
//
// Between two passes the agent keeps only what it cannot read anew:
//
//	takeovers  which machines answered a probe, and which nodes offered what: for seconds
//	handovers  which nodes are asked to take what: until they have it, or for a second
//	addresses  of each address, how often it vanished, why it failed, and when it is to be
//	           claimed next: until it is not wanted any more
//	held       what this agent had after the last pass
//	conflicts  which other machines have addresses of Services: until 10 minutes after a
//	           machine was heard last. The Lease of the node names them, so that the
//	           allocator hands out none of these addresses
//	claimants  which nodes of the cluster claim addresses that are here, until their agents
//	           are asked
//	segments   which links lead to no other machine, by the last questions there
//	answering  which addresses are on this node: what it tells agents that ask for one
//	inquiries  which of its own questions to other agents are not answered yet
//	reporter   what was reported, so that nothing is reported twice
//	idle       which Services lost their endpoints, and when: until they have had some for a
//	           minute
//	node       the Node that was seen last: an agent that leaves hands over by it when the
//	           Node was deleted
//
// The next agent on the node begins with none of it. The conflicts that the Lease names
// stay there for 10 minutes (package lease).
//
// The agent keeps what it has as long as it does not know everything: before its
// caches are complete, while the API server is away, and when the kernel gives a
// partial answer. An agent that restarts ends without touching an address: the next
// one on the node finds them in place and adopts them. What other ends do is decided by
// package ending.
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
	"purelb.io/purelb/internal/election"
	"purelb.io/purelb/internal/lease"
	"purelb.io/purelb/internal/membership"
	"purelb.io/purelb/internal/process"
)

// Cluster is what the agent needs to know of the API server's objects.
type Cluster interface {
	// Read returns the objects as last seen. complete is false until all of
	// them were seen once.
	Read(ctx context.Context) (s Snapshot, complete bool, err error)
	// Endpoints returns where these Services have endpoints, by "namespace/name", as far
	// as that is known. Only changes of theirs signal a change from now on.
	Endpoints(ctx context.Context, services map[string]bool) (ready, ending announce.Endpoints, err error)
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

// Agent is the node agent. Only Run touches its state, except pulse, shown, held.links,
// segments.questions and inquiries.
type Agent struct {
	Options
	config    parsed
	contests  election.Contests
	soft      soft
	endings   announce.Endings
	idle      announce.IdleDamping
	takeovers announce.Takeovers
	handovers announce.Handovers
	conflicts announce.Conflicts
	claimants claimants
	addresses announce.Memory
	held      heldAddresses
	segments  segments
	answering answering
	inquiries inquiries
	// claiming says that gratuitous ARP is not switched off.
	claiming bool
	// burst notices when many addresses came or went.
	burst process.Burst
	// node is the object of this node that was seen last.
	node *corev1.Node
	// leaving is why this node is to have no local address any more, or "".
	leaving    string
	reporter   reporter
	background background
	pulse      process.Pulse
	shown      atomic.Pointer[shown]
}

// New returns an Agent that does nothing before Run.
func New(opt Options) *Agent {
	opt.Handover = cmp.Or(opt.Handover, announce.HandoverLimit)
	return &Agent{
		Options:    opt,
		takeovers:  announce.Takeovers{Self: opt.Node, Limit: opt.Handover},
		handovers:  announce.Handovers{Limit: opt.Handover},
		conflicts:  announce.Conflicts{},
		claimants:  claimants{},
		addresses:  announce.Memory{},
		segments:   segments{silent: map[side]bool{}, silentLinks: map[string]bool{}, unaskable: map[string]bool{}},
		reporter:   reporter{node: opt.Node, log: opt.Log, events: opt.Events, metrics: opt.Metrics},
		background: background{completions: make(chan completion)},
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

// Kernel is what the agent needs of the network stack.
type Kernel interface {
	// Observe returns what is on this node: all of it, or an error. The agent
	// removes what it does not want, and must not take "not seen" for "not
	// there".
	Observe(ctx context.Context) (announce.Node, error)
	// Changes signals that Observe may return something else, until ctx is
	// done. What this agent itself did to addresses may be left out.
	Changes(ctx context.Context) (<-chan struct{}, error)
	// Put makes the addresses be as they say. It does what it can; the error
	// joins an announce.AddressError for each that failed.
	Put(ctx context.Context, addresses []announce.Address) error
	// Remove takes the addresses off, and fails like Put. Removing what is not
	// there is not an error.
	Remove(ctx context.Context, addresses []announce.Address) error
	// EnsureDummy makes sure that the link for remote addresses is there.
	EnsureDummy(ctx context.Context, name string) (kind string, err error)
	// ForgetFlows ends the UDP flows to the addresses, and returns how many.
	ForgetFlows(ctx context.Context, addresses []netip.Addr) (int, error)
	// Claim tells the segment of a link once that the address is here.
	Claim(ctx context.Context, link string, address netip.Addr) error
	// Probe asks the segment of a link which machines have the addresses, and returns
	// the MACs of all that answered, for each address. It fails if an answer could have
	// been missed.
	Probe(ctx context.Context, link string, addresses []netip.Addr, p announce.Probing) (announce.Answers, error)
	// Listen tells what others say on the wire about the addresses that mine
	// returns, with their links, until ctx is done. mine is called from
	// elsewhere.
	Listen(ctx context.Context, mine func() map[netip.Addr]string) (<-chan announce.Heard, error)
}

// Peers is what the agent needs to know of the other nodes, and what it tells
// them. Where the knowledge comes from (Leases, gossip) does not matter to it.
type Peers interface {
	// Publish says what the others may know of this node from now on.
	Publish(r lease.Record)
	// Inherited returns, once, what agents of this node before this one heard of
	// other machines. Whoever takes the claims has to Publish them.
	Inherited() []lease.Heard
	// Peers returns what is known of all nodes.
	Peers() election.Peers
	// Changed signals that Peers returns something else.
	Changed() <-chan struct{}
	// Send delivers message to the agent of node. Only an answer tells that
	// it was read.
	Send(ctx context.Context, node string, message []byte) error
	// Received delivers what the agents of other nodes Send.
	Received() <-chan membership.Message
	// Leave says goodbye for good: the others need not wait until they miss
	// this node. Nothing that is published afterwards is told.
	Leave(ctx context.Context) error
}
