package agent

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/announce/linux"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/nodes/lease"
	"purelb.io/purelb/internal/nodes/membership"
	"purelb.io/purelb/internal/testing/expect"
)

// segment is an Ethernet segment with hosts. Each host is a network namespace whose eth0 is on a
// bridge. The test itself is on the bridge too, as the router.
type segment struct {
	t        *testing.T
	exchange exchange
	hosts    map[string]*host
}

// host is a machine on the segment, and its agent.
type host struct {
	neighborhood
	name    string
	stack   *linux.Stack
	kernel  local
	cluster *fakeCluster
	agent   *Agent
	events  *record.FakeRecorder
	metrics *Metrics
}

func newSegment(t *testing.T, names ...string) *segment {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread dies with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("make a network namespace, as root: %v", err)
	}
	ip(t, `link set lo up
		link add br0 type bridge forward_delay 0 mcast_snooping 0
		link set br0 up
		addr add 192.0.2.254/24 dev br0
		addr add 2001:db8::254/64 dev br0 nodad`)
	s := &segment{t: t, hosts: map[string]*host{}}
	s.exchange.members, s.exchange.own, s.exchange.macs = map[string]election.Member{}, map[string][]netip.Addr{}, map[[6]byte]string{}
	for i, name := range names {
		s.hosts[name] = s.newHost(name, i+1)
	}
	return s
}

// newHost creates a host. A thread works in the namespace of the host until the test ends.
func (s *segment) newHost(name string, number int) *host {
	t := s.t
	h := &host{name: name, neighborhood: newNeighborhood(t), cluster: newFakeCluster(name)}
	ip(t, fmt.Sprintf(`link add port-%[1]s type veth peer name eth0 netns %[2]s
		link set port-%[1]s master br0
		link set port-%[1]s up`, name, h.path))
	h.in(func() {
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0); err != nil {
			t.Logf("duplicate address detection could not be disabled: %v", err)
		}
		ip(t, fmt.Sprintf(`link set lo up
			link set eth0 up
			addr add 192.0.2.%[1]d/24 dev eth0
			addr add 2001:db8::%[1]d/64 dev eth0 nodad
			route add default via 192.0.2.254
			route add default via 2001:db8::254`, number))
		var err error
		if h.stack, err = linux.New(slog.New(slog.DiscardHandler)); err != nil {
			t.Error(err)
			return
		}
		changes, err := h.stack.Changes(context.WithoutCancel(t.Context()))
		if err != nil {
			t.Error(err)
		}
		h.kernel = local{h.stack, changes}
	})
	t.Cleanup(func() { _ = h.stack.Close() })
	return h
}

// unhurried is the time that agents on a segment wait for each other. lasting is the time that an
// address stays without its agent, in seconds. Both are long because the machine may be busy.
const unhurried, lasting = 30 * time.Second, int32(600)

// newFakeCluster returns the cluster of a segment as the agent of node sees it.
func newFakeCluster(node string) *fakeCluster {
	lifetime := v2.InterfaceSpec{AddressConfig: &v2.AddressConfig{LocalInterface: &v2.AddressAttributes{ValidLifetime: ptr(lasting)}}}
	return &fakeCluster{changed: make(chan struct{}, 1), snapshot: objects{Snapshot: Snapshot{
		Node:   &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}},
		Groups: []v2.ServiceGroup{localGroup("local", "192.0.2.0/25", "2001:db8::/96")},
		Agents: []v2.LBNodeAgent{lbNodeAgent("default", lifetime)},
	}}}
}

// start runs an agent on h, until stop is called.
func (s *segment) start(name string, departures Departures) (stop func()) {
	h := s.hosts[name]
	h.events, h.metrics = record.NewFakeRecorder(10000), NewMetrics(prometheus.NewRegistry(), 1000)
	h.agent = New(Options{
		Node: name, Namespace: "purelb", Kernel: h.kernel, Cluster: h.cluster, Peers: s.exchange.join(name), Annotations: s,
		Departures: departures, Handover: unhurried, Events: h.events, Metrics: h.metrics, Log: slog.New(slog.DiscardHandler),
	})
	return run(s.t, h.agent.Run)
}

// change changes the cluster for all agents.
func (s *segment) change(change func(*objects)) {
	for _, h := range s.hosts {
		h.cluster.change(change)
	}
}

// Want writes without a delay. All agents see the result.
func (s *segment) Want(writes map[string]Write) {
	s.exchange.mu.Lock()
	defer s.exchange.mu.Unlock()
	for _, h := range s.hosts {
		(&fakeAnnotations{cluster: h.cluster}).Want(writes)
	}
}

// holders returns the hosts that have the address.
func (s *segment) holders(address string) string {
	var names []string
	for name, h := range s.hosts {
		node, err := h.stack.Observe(s.t.Context())
		expect.NoError(s.t, err)
		if slices.ContainsFunc(node.Addresses, func(a announce.Address) bool {
			return a.Link == "eth0" && a.Prefix.Addr() == netip.MustParseAddr(address)
		}) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func (s *segment) expect(what, holders string) {
	s.t.Helper()
	for _, address := range []string{"192.0.2.9", "2001:db8::9"} {
		eventuallyIs(s.t, what+": the holder of "+address, holders, func() string { return s.holders(address) })
	}
}

// eventually waits until the exchange has what is says.
func (s *segment) eventually(what string, is func() bool) {
	s.t.Helper()
	eventually(s.t, what, func() bool {
		s.exchange.mu.Lock()
		defer s.exchange.mu.Unlock()
		return is()
	})
}

// exchange replaces gossip. All nodes see a change at once.
type exchange struct {
	mu      sync.Mutex
	members map[string]election.Member
	own     map[string][]netip.Addr
	macs    map[[6]byte]string
	seats   []*seat
}

// seat is the Peers of one node.
type seat struct {
	*exchange
	node    string
	changed chan struct{}
	inbox   chan membership.Message
}

func (x *exchange) join(node string) *seat {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seats = slices.DeleteFunc(x.seats, func(s *seat) bool { return s.node == node })
	s := &seat{x, node, make(chan struct{}, 1), make(chan membership.Message, 100)}
	x.seats = append(x.seats, s)
	return s
}

func (s *seat) Publish(r lease.Record) {
	s.change(func() {
		s.own[s.node] = r.Addresses
		for _, mac := range r.MACs {
			s.macs[mac] = s.node
		}
		s.members[s.node] = election.Member{Node: s.node, Subnets: r.Subnets, Draining: r.Draining != "", Eligible: true, Reachable: true}
	})
}

// change changes the view, and signals if it differs.
func (x *exchange) change(change func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	before := fmt.Sprint(x.members, x.own, x.macs)
	change()
	if fmt.Sprint(x.members, x.own, x.macs) != before {
		for _, s := range x.seats {
			backoff.Poke(s.changed)
		}
	}
}

// lose makes node dead for all nodes.
func (x *exchange) lose(node string) { x.change(func() { delete(x.members, node) }) }

func (s *seat) Peers() election.Peers {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := election.Peers{Known: subnets, Own: map[netip.Addr]string{}, MACs: maps.Clone(s.macs), Trusted: true}
	for node, own := range s.own {
		for _, ip := range own {
			p.Own[ip] = node
		}
	}
	for _, m := range s.members {
		p.Members = append(p.Members, m)
	}
	return p
}

func (s *seat) Send(_ context.Context, node string, message []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.seats {
		if other.node == node {
			other.inbox <- membership.Message{From: s.node, Body: message, Received: time.Now()}
			return nil
		}
	}
	return fmt.Errorf("there is no node %s", node)
}

func (s *seat) Inherited() ([]lease.Heard, bool)    { return nil, true }
func (s *seat) Changed() <-chan struct{}            { return s.changed }
func (s *seat) Received() <-chan membership.Message { return s.inbox }
func (s *seat) State() any                          { return nil }

func (s *seat) Leave(context.Context) error { s.lose(s.node); return nil }
