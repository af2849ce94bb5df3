package speaker

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/yaml"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/bfd"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

// world is a speaker on node-a with a fake server, kernel, BFD and cluster.
type world struct {
	t       *testing.T
	server  *fakeServer
	kernel  *fakeKernel
	bfd     *fakeBFD
	cluster *fakeCluster
	reports *fakeReports
	events  *record.FakeRecorder
	memory  string
	metrics *prometheus.Registry
	speaker *Speaker
	log     expect.Log
	// end stops the speaker and returns the result of Run.
	end func() error
	// restarted says that the speaker asked to begin again.
	restarted bool
	// cancel stops the speaker, and does not wait.
	cancel func()
}

// reported returns the events since the last call.
func (w *world) reported() string {
	var events []string
	for {
		select {
		case e := <-w.events.Events:
			events = append(events, e)
		default:
			return strings.Join(events, "\n")
		}
	}
}

// state returns the answer of /state.
func (w *world) state() string {
	answer := httptest.NewRecorder()
	w.speaker.MetricsHandler(prometheus.NewRegistry()).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/state", nil))
	return answer.Body.String()
}

// oneNeighbor is the spec of most tests.
const oneNeighbor = `{global: {asn: 65000, gracefulRestart: {enabled: true}},
	neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001}}]}`

// configuration is a BGPConfiguration with this spec, in YAML's flow style.
func configuration(t *testing.T, name, spec string) bgpv1.BGPConfiguration {
	t.Helper()
	c := bgpv1.BGPConfiguration{ObjectMeta: metav1.ObjectMeta{Namespace: "purelb", Name: name, UID: types.UID(name), Generation: 1}}
	text, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll(spec, "\t", " ")))
	expect.NoError(t, err)
	expect.NoError(t, json.Unmarshal(text, &c.Spec))
	return c
}

// edit gives the BGPConfiguration another spec.
func (w *world) edit(spec string) {
	w.t.Helper()
	c := configuration(w.t, "default", spec)
	w.sees(func(s *intent.Snapshot) {
		if len(s.Configs) > 0 {
			c.Generation = s.Configs[0].Generation + 1
		}
		s.Configs = []bgpv1.BGPConfiguration{c}
	})
}

// inWorld runs test in a world with its own time. before may change the world before the
// speaker starts. Worlds with the same memory are processes one after another.
func inWorld(t *testing.T, spec string, before func(*world), test func(*world)) {
	memory := filepath.Join(t.TempDir(), "input.json")
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, spec, memory)
		if before != nil {
			before(w)
		}
		w.start()
		settle()
		test(w)
		if err := w.end(); err != nil {
			t.Errorf("the speaker ended with %v", err)
		}
	})
}

func newWorld(t *testing.T, spec, memory string) *world {
	w := &world{t: t, server: newFakeServer(), kernel: newFakeKernel(), bfd: &fakeBFD{events: make(chan bfd.Event, 16)}, reports: &fakeReports{}, memory: memory}
	w.cluster = &fakeCluster{changed: make(chan struct{}, 1), snapshot: intent.Snapshot{
		Managed: []intent.ServiceFacts{},
		Node:    &intent.NodeFacts{Node: peering.Node{Name: "node-a", Labels: map[string]string{"rack": "1"}, InternalIPs: []netip.Addr{netip.MustParseAddr("192.0.2.10")}}, UID: "uid-a"},
	}}
	if spec != "" {
		w.cluster.snapshot.Configs = []bgpv1.BGPConfiguration{configuration(t, "default", spec)}
	}
	w.events, w.metrics = record.NewFakeRecorder(1000), prometheus.NewRegistry()
	w.speaker = New(Options{
		Node: "node-a", Namespace: "purelb", Server: w.server, Kernel: w.kernel, BFD: w.bfd, Cluster: w.cluster, Reports: w.reports,
		Events: w.events, Metrics: NewMetrics(w.metrics, true, 10), Log: slog.New(slog.NewTextHandler(&w.log, nil)), Memory: memory,
		Restart: func() { w.restarted = true; w.cancel() },
	})
	return w
}

func (w *world) start() {
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.speaker.Run(ctx) }()
	w.cancel = cancel
	w.end = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
}

// sees changes the cluster, and gives the speaker time for it.
func (w *world) sees(change func(*intent.Snapshot)) {
	w.cluster.change(change)
	settle()
}

// serves does the same with the BGP server, and routed with the kernel.
func (w *world) serves(change func(*fakeServer)) {
	w.server.change(change)
	settle()
}

func (w *world) routed(change func(*fakeKernel)) {
	w.kernel.change(change)
	settle()
}

// settle gives the speaker time for all its work.
func settle() { pass(2 * time.Second) }

// atOnce gives the speaker time for work without a delay.
func atOnce() { pass(time.Millisecond) }

// pass lets time pass. Then it waits until the speaker has done the work that is due. Otherwise
// that work would run at the same time as the test.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// helps makes a neighbor agree to keep our routes while we restart.
func (s *fakeServer) helps(address string) {
	n := s.neighbors[address]
	n.GracefulRestart = true
	s.neighbors[address] = n
}

// established adds a session that is up.
func established(address string, asn uint32) func(*fakeServer) {
	return func(s *fakeServer) {
		s.neighbors[address] = peering.NeighborStatus{
			Address: netip.MustParseAddr(address), PeerASN: asn, LocalASN: 65000, State: peering.Established, UpSince: time.Now(), Since: time.Now(),
			Agreed: []addr.Family{addr.V4, addr.V6}, Sent: map[addr.Family]uint32{addr.V4: 1, addr.V6: 1},
		}
	}
}
