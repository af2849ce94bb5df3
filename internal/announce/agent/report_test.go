package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/kube/events"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/expect"
)

// eventCount counts events.
type eventCount int

func (c *eventCount) Eventf(runtime.Object, string, string, string, ...any) { *c++ }

// Every node of a large cluster gets a remote address at the same time.
func TestSixteenOfAThousandNodesReportARemoteAddress(t *testing.T) {
	const nodes, services = 1000, 5
	var members []election.Member
	for i := range nodes {
		members = append(members, peer(fmt.Sprintf("node-%03d", i)))
	}
	counts, most := make([]eventCount, services), eventCount(0)
	metrics := NewMetrics(prometheus.NewRegistry(), 1000)
	for _, m := range members {
		for i := range services {
			r := reporter{node: m.Node, log: slog.New(slog.DiscardHandler), events: &counts[i], metrics: metrics}
			seen := &observation{services: map[string]*Service{}}
			seen.Peers.Members = members
			r.report(time.Now(), seen, nil, &announce.Outcome{})
			far := branded("far", fmt.Sprintf("203.0.113.%d", i))
			seen.services["default/far"] = kept(&far)
			r.report(time.Now(), seen, []announce.Decision{{
				Service: "default/far", IP: addrOf(fmt.Sprintf("203.0.113.%d", i)), Where: announce.Remote, Reason: announce.ReasonRemote,
			}}, &announce.Outcome{})
		}
	}
	for _, n := range counts {
		most = max(most, n)
		expect.Equal(t, "nodes that report an address", n, 16)
	}
	fmt.Printf("RESULT events_per_remote_service_1000_nodes %d\n", most)
}

// Of the nodes with an endpoint (policy Local), and of those with an LBNodeAgent, up to sixteen write
// events. The others do not have the address.
func TestOnlyNodesThatAnnounceReport(t *testing.T) {
	far, local := branded("far", "203.0.113.7"), branded("far", "203.0.113.7")
	local.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	for _, tt := range []struct {
		name      string
		svc       corev1.Service
		announces func(node int) bool
		want      int
	}{
		{"a tenth of the nodes", far, func(node int) bool { return node < 100 }, 16},
		{"one node", far, func(node int) bool { return node == 7 }, 1},
		{"two nodes with endpoints", local, func(node int) bool { return node == 7 || node == 500 }, 2},
	} {
		seen := &observation{services: map[string]*Service{}}
		endpoints := []string{""}
		for i := range 1000 {
			m := peer(fmt.Sprintf("node-%03d", i))
			if tt.announces(i) {
				endpoints = append(endpoints, m.Node)
			}
			m.Unconfigured = tt.svc.Spec.ExternalTrafficPolicy == "" && !tt.announces(i)
			seen.Peers.Members = append(seen.Peers.Members, m)
		}
		seen.Endpoints = announce.Endpoints{{Service: "default/far", Family: addr.V4}: endpoints}
		n := 0
		for i, m := range seen.Peers.Members {
			if (&reporter{node: m.Node, reported: reports{}}).speaks(time.Now(), seen, kept(&tt.svc), addrOf("203.0.113.7")) {
				if n++; !tt.announces(i) {
					t.Errorf("%s: %s reports the address and announces nothing", tt.name, m.Node)
				}
			}
		}
		expect.Equal(t, tt.name+": nodes that report the address", n, tt.want)
	}
}

// The time at which a Service got its address comes from the clock of another machine.
func TestANodeWithAWrongClockDoesNotReportOldAddresses(t *testing.T) {
	seen := &observation{services: map[string]*Service{}}
	seen.Peers.Members = []election.Member{peer("node-a")}
	far := branded("far", "203.0.113.7")
	for ahead, reports := range map[time.Duration]bool{0: true, time.Minute: true, -time.Minute: true, time.Hour: false, -time.Hour: false} {
		r := reporter{node: "node-a"} // the agent has just started
		expect.Equal(t, fmt.Sprintf("with a clock that is %s ahead, the node reports", ahead), r.speaks(time.Now().Add(ahead), seen, kept(&far), addrOf("203.0.113.7")), reports)
	}
}

// eventStore is the events of an API server.
type eventStore struct {
	mu      sync.Mutex
	created []string
}

func (s *eventStore) Create(_ context.Context, e *corev1.Event) (*corev1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.created = append(s.created, e.Type+" "+e.Reason+" "+e.Message)
	return e, nil
}

func (s *eventStore) Patch(_ context.Context, e *corev1.Event, _ []byte) (*corev1.Event, error) {
	return e, nil
}

func (s *eventStore) writes() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	written := strings.Join(s.created, "\n")
	s.created = nil
	return written
}

// restarted replaces the agent of w by another one for a minute. It returns the new events.
func restarted(t *testing.T, w *world, store *eventStore) string {
	t.Helper()
	w.end()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	recorder := events.New(store, corev1.EventSource{Component: eventSource, Host: "node-a"}, slog.New(slog.DiscardHandler))
	options := w.agent.Options
	options.Events = recorder
	var parts sync.WaitGroup
	parts.Go(func() { _ = recorder.Run(ctx) })
	parts.Go(func() { _ = New(options).Run(ctx) })
	pass(time.Minute)
	cancel()
	parts.Wait()
	return store.writes()
}

// The node has addresses of both kinds, and an address that cannot be added. LBNodeAgents are
// ignored, malformed, or have a wrong selector.
func TestARestartRepeatsNoNormalEvent(t *testing.T) {
	store := &eventStore{}
	inWorld(t, func(w *world) {
		w.kernel.putErr["192.0.2.10"] = errors.New("no buffer space")
		selector := lbNodeAgent("selector", v2.InterfaceSpec{})
		selector.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"not a label!": ""}}
		w.cluster.snapshot.Agents = append(w.cluster.snapshot.Agents, lbNodeAgent("second", v2.InterfaceSpec{}), selector)
		serving(branded("web", "192.0.2.9", "2001:db8::9"), branded("full", "192.0.2.10"), branded("far", "203.0.113.7"))(&w.cluster.snapshot)
	}, func(w *world) {
		first := restarted(t, w, store)
		for _, reason := range []string{eventConfigIgnored, eventInvalidSelector, eventFailed} {
			expect.Contains(t, "the events of the first agent", first, reason+" ")
		}
		for range 2 {
			expect.Equal(t, "Normal events after a restart", strings.Count(restarted(t, w, store), "Normal "), 0)
		}
	})
}

// A node that boots has no remote addresses yet. Other nodes have reported the old ones.
func TestABootingNodeReportsOnlyNewAddresses(t *testing.T) {
	inWorld(t, func(w *world) {
		old, renewed := branded("old", "203.0.113.7"), branded("renewed", "203.0.113.8")
		old.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
		renewed.Annotations[service.AnnotationAllocatedAddresses] = "203.0.113.8"
		renewed.CreationTimestamp = old.CreationTimestamp
		renewed.Status.Conditions = []metav1.Condition{{Type: service.ConditionAllocated, Status: metav1.ConditionTrue, LastTransitionTime: metav1.Now()}}
		serving(old, renewed, branded("new", "2001:db8:9::7"))(&w.cluster.snapshot)
	}, func(w *world) {
		settle()
		expect.Equal(t, "kernel", w.kernel.String(), "2001:db8:9::7/128 kube-lb0, 203.0.113.7/32 kube-lb0, 203.0.113.8/32 kube-lb0")
		expect.Equal(t, "events", w.reported(), "Normal AnnouncingNonLocal Announcing 2001:db8:9::7 from node node-a interface kube-lb0\n"+
			"Normal AnnouncingNonLocal Announcing 203.0.113.8 from node node-a interface kube-lb0")
	})
}

// withdrawing makes all groups withdraw idle addresses.
func withdrawing(s *objects) {
	s.Groups[0].Spec.Local.WithdrawWithoutEndpoints, s.Groups[1].Spec.Remote.WithdrawWithoutEndpoints = true, true
	s.Groups[0].Generation, s.Groups[1].Generation = 2, 2
}
