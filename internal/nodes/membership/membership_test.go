package membership

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/nodes/gossip"
	"purelb.io/purelb/internal/nodes/lease"
	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

func TestMain(m *testing.M) { os.Exit(apitest.Run(m)) }

// cluster is a set of agents on loopback addresses. They share a namespace of a real API
// server and the Secret "shared" in it. Gossip may take joining to find the other agents.
type cluster struct {
	t         *testing.T
	core      kubernetes.Interface
	namespace string
	joining   time.Duration
	number    int // no other cluster has it
}

// patiently is the gossip timing for a machine that may pause for seconds. With it, such a node is
// not dead.
var patiently = gossip.Timing{Refutation: 5 * time.Second, Stream: 20 * time.Second}

var clusters atomic.Int32

// newCluster makes t run in parallel with other tests: most of their time, they wait for Leases.
func newCluster(t *testing.T) cluster {
	t.Helper()
	t.Parallel()
	core, err := kubernetes.NewForConfig(apitest.Config(t))
	expect.NoError(t, err)
	c := cluster{t, core, apitest.Namespace(t), joining, int(clusters.Add(1))}
	c.secret("shared", 1)
	return c
}

// place returns the gossip address of the agent of node n. No other process and no other test uses
// this address, so its port is free.
func (c cluster) place(n int) netip.AddrPort { return place(10*c.number + n) }

func place(n int) netip.AddrPort {
	pid := os.Getpid()
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, byte(1 + pid>>8%250), byte(pid), byte(n)}), 7934)
}

// secret writes a Secret with these keys. Each key is 32 times the same byte.
func (c cluster) secret(name string, keys ...byte) {
	c.t.Helper()
	var lines []string
	for _, k := range keys {
		lines = append(lines, base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(rune(k)), 32))))
	}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"key": []byte(strings.Join(lines, "\n"))}}
	secrets := c.core.CoreV1().Secrets(c.namespace)
	_, err := secrets.Create(c.t.Context(), s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(c.t.Context(), s, metav1.UpdateOptions{})
	}
	expect.NoError(c.t, err)
}

// member is one agent of a cluster.
type member struct {
	*Membership
	t     *testing.T
	lists *atomic.Int32
	stop  func() // stops the agent as a power failure does, without Leave
}

// join starts the agent of node n, which gossips with the keys of secret.
func (c cluster) join(n int, secret string) *member { return c.joinAs(n, secret, func(*Options) {}) }

// joinAs is join with changed options.
func (c cluster) joinAs(n int, secret string, change func(*Options)) *member {
	opt := Options{
		Gossiping: Gossiping{Bind: c.place(n), Secret: secret},
		Lease:     c.lease(fmt.Sprintf("node-%d", n)),
		Secrets:   c.core.CoreV1().Secrets(c.namespace), Log: slog.New(slog.DiscardHandler),
		timing: patiently, joining: c.joining,
	}
	change(&opt)
	m := c.run(New(opt))
	m.Publish(lease.Record{NodeUID: "uid", Subnets: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	return m
}

// lease returns the Lease options of the agent of node.
func (c cluster) lease(node string) lease.Options {
	return lease.Options{
		Client: counting{c.core.CoordinationV1().Leases(c.namespace), &atomic.Int32{}}, Node: node, Instance: "pod-of-" + node,
		Duration: 5 * time.Second, RenewDeadline: 4 * time.Second, RetryPeriod: time.Second,
	}
}

// run runs m until the test ends or the test stops it.
func (c cluster) run(m *Membership) *member {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	stop := func() {
		cancel()
		if err := <-ended; err != nil {
			c.t.Error(err)
		}
		ended <- nil
	}
	c.t.Cleanup(stop)
	client, _ := m.Lease.Client.(counting)
	return &member{m, c.t, client.lists, stop}
}

// counting is a client that counts the lists.
type counting struct {
	coordination.LeaseInterface
	lists *atomic.Int32
}

func (c counting) List(ctx context.Context, o metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	c.lists.Add(1)
	return c.LeaseInterface.List(ctx, o)
}

// sees waits until m has these nodes. A "?" follows each node to which m cannot send.
func (m *member) sees(nodes string) {
	m.t.Helper()
	limit := time.After(time.Minute)
	for {
		p := m.Peers()
		var seen []string
		for _, one := range p.Members {
			if name := one.Node; one.Reachable {
				seen = append(seen, name)
			} else {
				seen = append(seen, name+"?")
			}
		}
		if got := strings.Join(seen, " "); p.Trusted && got == nodes {
			return
		}
		select {
		case <-m.Changed():
		case <-limit:
			m.t.Fatalf("%s does not see %q after a minute, but %q, trusted %t", m.Lease.Node, nodes, seen, p.Trusted)
		}
	}
}

func TestAgentsFindEachOtherWithoutPolling(t *testing.T) {
	c := newCluster(t)
	c.joining = time.Minute // on a slow machine, gossip is slow to find the others
	a, b := c.join(1, "shared"), c.join(2, "shared")
	a.sees("node-1 node-2")
	b.sees("node-1 node-2")
	d := c.join(3, "shared")
	for _, f := range []*member{a, b, d} {
		f.sees("node-1 node-2 node-3")
	}
	if n := d.lists.Load(); n > 3 { // at the start, after its Lease was written, and one that failed
		t.Errorf("the third agent listed the Leases %d times", n)
	}
	o, err := c.core.CoordinationV1().Leases(c.namespace).Get(t.Context(), "purelb-node-node-3", metav1.GetOptions{})
	if err != nil || *o.Spec.LeaseDurationSeconds != 180 {
		t.Errorf("the Lease of the third agent is %v, %v", o, err)
	}

	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(d)
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP purelb_election_view 1 if this source, gossip or lease, now tells which nodes are alive.
# TYPE purelb_election_view gauge
purelb_election_view{source="gossip"} 1
purelb_election_view{source="lease"} 0
# HELP purelb_gossip_members Nodes that gossip knows of, this one included: alive, dead, left.
# TYPE purelb_gossip_members gauge
purelb_gossip_members{state="alive"} 3
purelb_gossip_members{state="dead"} 0
purelb_gossip_members{state="left"} 0
`), "purelb_election_view", "purelb_gossip_members"); err != nil {
		t.Error(err)
	}

	expect.Equal(t, "the message", exchange(t, a, d, "take"), "node-1: take")

	d.Publish(lease.Record{NodeUID: "uid", Draining: "cordoned"})
	for !slices.ContainsFunc(a.Peers().Members, func(m election.Member) bool { return m.Node == "node-3" && m.Draining }) {
		<-a.Changed()
	}
	d.stop()
	a.sees("node-1 node-2") // without Leave, the Lease of node-3 would count for minutes

	if err := b.Leave(t.Context()); err != nil {
		t.Error(err)
	}
	a.sees("node-1")
	if _, err := c.core.CoordinationV1().Leases(c.namespace).Get(t.Context(), "purelb-node-node-2", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Lease of the agent that left exists: %v", err)
	}
}

func TestLeasesDecideAfterALossOfMostNodes(t *testing.T) {
	c := newCluster(t)
	all := []*member{c.join(1, "shared"), c.join(2, "shared"), c.join(3, "shared")}
	for _, f := range all {
		f.sees("node-1 node-2 node-3")
	}
	all[1].stop()
	all[2].stop()
	all[0].sees("node-1")
}

func TestLeasesReachNodesOutsideOfGossip(t *testing.T) {
	c := newCluster(t)
	c.secret("other", 2)
	d, e := c.join(3, "other"), c.join(4, "none")
	d.sees("node-3 node-4?")
	e.sees("node-3? node-4?")
	// a and b start after the nodes that gossip does not reach. So they list their Leases and poll
	// them. An earlier agent would list them minutes later.
	a, b := c.join(1, "shared"), c.join(2, "shared")
	for _, f := range []*member{a, b} {
		f.sees("node-1 node-2 node-3? node-4?")
	}
	d.sees("node-1? node-2? node-3 node-4?")
	e.sees("node-1? node-2? node-3? node-4?")
	if err := e.Send(t.Context(), "node-1", nil); err == nil {
		t.Error("a message is sent without gossip")
	}

	// The key changes while all agents run. Each agent decrypts with both keys before an agent
	// encrypts with the new key.
	c.secret("shared", 1, 2)
	c.secret("other", 2, 1)
	c.secret("none", 2, 1)
	for _, f := range []*member{a, b, d, e} {
		f.sees("node-1 node-2 node-3 node-4")
	}
}

// exchange sends message from a to b until b has read one. It returns the message that b read. b
// drops messages that arrive during a pause, so each sleep is the time that one message may take.
func exchange(t *testing.T, a, b *member, message string) string {
	t.Helper()
	for deadline := time.Now().Add(40 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		expect.NoError(t, a.Send(t.Context(), b.Lease.Node, []byte(message)))
		select {
		case m := <-b.Received():
			return m.From + ": " + string(m.Body)
		default:
		}
	}
	t.Fatal("no message arrived within 40 s")
	return ""
}

// A node is renumbered while its agent runs.
func TestGossipMovesToAnotherAddress(t *testing.T) {
	c := newCluster(t)
	a, b := c.join(1, "shared"), c.join(2, "shared")
	a.sees("node-1 node-2")
	b.sees("node-1 node-2")
	r := *b.record
	r.Gossip = c.place(9)
	b.Publish(r)
	at := func(m *member) string {
		if g := m.gossiping(); g != nil {
			for _, one := range g.Members() {
				if one.Node == "node-2" {
					return one.Address.String()
				}
			}
		}
		return ""
	}
	for deadline := time.Now().Add(time.Minute); at(a) != c.place(9).String() || at(b) != c.place(9).String(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute node-2 is at %q for node-1 and at %q for itself", at(a), at(b))
		}
	}
	a.sees("node-1 node-2")
	b.sees("node-1 node-2")
	expect.Equal(t, "the message", exchange(t, a, b, "take"), "node-1: take")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // the Lease is renewed once in a second at most
		o, err := c.core.CoordinationV1().Leases(c.namespace).Get(t.Context(), "purelb-node-node-2", metav1.GetOptions{})
		expect.NoError(t, err)
		if o.Annotations[lease.AnnotationGossip] == c.place(9).String() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute the address in the Lease is %q", o.Annotations[lease.AnnotationGossip])
		}
	}
}
