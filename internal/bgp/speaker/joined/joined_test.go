// Package joined_test runs the speaker with its real drivers and a router.
package joined_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/yaml"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/bfd"
	"purelb.io/purelb/internal/bgp/gobgp"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/bgp/routing"
	"purelb.io/purelb/internal/bgp/speaker"
	"purelb.io/purelb/internal/nodes/ending"
	"purelb.io/purelb/internal/testing/bgptest"
	"purelb.io/purelb/internal/testing/expect"
)

func TestMain(m *testing.M) { os.Exit(bgptest.Main(m)) }

// cluster is the objects of a cluster.
type cluster struct {
	mu       sync.Mutex
	snapshot intent.Snapshot
	changed  chan struct{}
}

func (c *cluster) Read() (intent.Snapshot, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.snapshot, true
}

func (c *cluster) OthersServe(context.Context) (bool, error) { return true, nil }

func (c *cluster) Changed() <-chan struct{} { return c.changed }

func (c *cluster) change(change func(*intent.Snapshot)) {
	c.mu.Lock()
	change(&c.snapshot)
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// reports keeps the last report of the node.
type reports struct {
	mu   sync.Mutex
	last bgpv1.BGPNodeStatusStatus
}

func (r *reports) Node(n speaker.NodeReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = n.Status
}

// neighbors prints the sessions.
func (r *reports) neighbors() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := []string{fmt.Sprintf("healthy %v", r.last.Healthy)}
	for _, n := range r.last.Neighbors {
		lines = append(lines, fmt.Sprintf("%s %s bfd %s sent %d", n.Address, n.State, n.BFD, n.PrefixesSent))
	}
	return strings.Join(lines, ", ")
}

func snapshot(t *testing.T, spec string) intent.Snapshot {
	t.Helper()
	c := bgpv1.BGPConfiguration{ObjectMeta: metav1.ObjectMeta{Namespace: "purelb", Name: "default", UID: "1", Generation: 1}}
	text, err := yaml.YAMLToJSON([]byte(spec))
	expect.NoError(t, err)
	expect.NoError(t, json.Unmarshal(text, &c.Spec))
	return intent.Snapshot{
		Configs: []bgpv1.BGPConfiguration{c},
		Node:    &intent.NodeFacts{Node: peering.Node{Name: "node-a", InternalIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}},
	}
}

// endOf is an end that always has this cause.
type endOf ending.Cause

func (e endOf) Ending(context.Context) ending.Ending { return ending.Ending{Cause: ending.Cause(e)} }

// logTo returns a log that is shown if the test fails.
func logTo(t testing.TB) *slog.Logger {
	text := &expect.Log{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(text)
		}
	})
	return text.Logger(slog.LevelInfo)
}

// speak runs a speaker in this namespace. The function that it returns stops the speaker because
// of cause.
func speak(t testing.TB, log *slog.Logger, c *cluster, r *reports, router *bgptest.Router, cause ending.Cause) (stop func()) {
	t.Helper()
	kernel, err := routing.New(log)
	expect.NoError(t, err)
	watch := bfd.New(log)
	s := speaker.New(speaker.Options{
		Node: "node-a", Namespace: "purelb", Server: gobgp.New(log), Kernel: kernel, BFD: lastBFD{watch, router}, Cluster: c, Reports: r,
		Events: record.NewFakeRecorder(1000), Metrics: speaker.NewMetrics(prometheus.NewRegistry(), false, 0), Log: log, Endings: endOf(cause),
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the speaker ended with %v", err)
		}
		_ = kernel.Close()
	})
	t.Cleanup(stop)
	return stop
}

// lastBFD ends after the router has seen the end of BGP. Before that, FRR would end BGP because
// of the end of BFD. The speaker itself only waits for a fixed time, which is too short on a
// busy machine.
type lastBFD struct {
	*bfd.Engine
	router *bgptest.Router
}

func (b lastBFD) Close(context.Context) error {
	bgptest.Eventually(func() bool {
		return !strings.Contains(b.router.Ask("show bgp neighbors 192.0.2.1"), "BGP state = Established")
	})
	return b.Engine.Close(context.Background())
}

func TestAddressesAreInTheKernelOfTheRouter(t *testing.T) {
	wire, here, there := bgptest.NewSegment(t), bgptest.Here(t), bgptest.NewNamespace(t)
	wire.Join(here, "eth0", "192.0.2.1/24", "2001:db8::1/64")
	wire.Join(there, "eth0", "192.0.2.2/24", "2001:db8::2/64")
	here.IP("link add kube-lb0 type ifb\nlink set kube-lb0 up\naddr add 203.0.113.7/32 dev kube-lb0\naddr add 2001:db8:9::7/128 dev kube-lb0")
	t.Cleanup(func() { here.IP("link del kube-lb0") })
	// The hold times are long so that a busy machine ends no session.
	router := bgptest.FRR(t, there, `
bfd
 profile patient
  detect-multiplier 50
 exit
exit
router bgp 64514
 bgp router-id 192.0.2.2
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 neighbor 192.0.2.1 remote-as 65000
 neighbor 192.0.2.1 timers connect 1
 neighbor 192.0.2.1 bfd
 neighbor 192.0.2.1 bfd profile patient
 address-family ipv4 unicast
  neighbor 192.0.2.1 activate
 exit-address-family
 address-family ipv6 unicast
  neighbor 192.0.2.1 activate
 exit-address-family
`)
	c := &cluster{changed: make(chan struct{}, 1), snapshot: snapshot(t, `{global: {asn: 65000, gracefulRestart: {enabled: true}}, neighbors: [
  {config: {neighborAddress: 192.0.2.2, peerAsn: 64514}, bfd: {enabled: true, detectionMultiplier: 50}}]}`)}
	r := &reports{}
	log := logTo(t)
	stop := speak(t, log, c, r, router, ending.Restart)

	const v4, v6 = "203.0.113.7/32 via 192.0.2.1", "2001:db8:9::7/128 via 2001:db8::1"
	router.Await(v4, v6)
	bgptest.Await(t, "the status", "healthy true, 192.0.2.2 Established bfd Up sent 2", r.neighbors)
	here.IP("addr add 203.0.113.8/32 dev kube-lb0")
	router.Await(v4, "203.0.113.8/32 via 192.0.2.1", v6)
	here.IP("addr del 203.0.113.8/32 dev kube-lb0")
	router.Await(v4, v6)
	c.change(func(s *intent.Snapshot) {
		node := *s.Node
		node.DrainMark = ending.DrainMark{Reason: "a label"}
		s.Node = &node
	})
	router.AwaitSays("show bgp ipv4 unicast 203.0.113.7/32", "graceful-shutdown")
	c.change(func(s *intent.Snapshot) {
		node := *s.Node
		node.DrainMark = ending.DrainMark{}
		s.Node = &node
	})

	router.AwaitSays("show bgp ipv4 unicast 203.0.113.7/32", "Origin IGP, valid")
	router.AwaitSays("show bgp ipv6 unicast 2001:db8:9::7/128", "Origin IGP, valid")

	// Another process takes over, and the router changes no route. The router's kernel is up to date
	// with its BGP when a later route has come and gone.
	here.IP("addr add 203.0.113.9/32 dev kube-lb0")
	router.Await(v4, "203.0.113.9/32 via 192.0.2.1", v6)
	here.IP("addr del 203.0.113.9/32 dev kube-lb0")
	router.Await(v4, v6)
	bgptest.Await(t, "the status again", "healthy true, 192.0.2.2 Established bfd Up sent 2", r.neighbors)
	monitor := there.Monitor()
	stop()
	stop = speak(t, log, c, r, router, ending.NodeDown)
	bgptest.Await(t, "the status after a restart", "healthy true, 192.0.2.2 Established bfd Up sent 2", r.neighbors)
	monitor.Quiet(t)

	// A node that shuts down is no next hop any more. After a restart of the speaker, the router would
	// keep the routes.
	stop()
	router.Await()
	speak(t, log, c, r, router, ending.Restart)
	router.Await(v4, v6)

	c.change(func(s *intent.Snapshot) { s.Configs = nil })
	router.Await()
}
