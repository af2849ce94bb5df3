package allocate

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/allocate/backends"
	"purelb.io/purelb/internal/allocate/census"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/nodes/lease"
)

// cluster lists its objects in a new order each time, as a cache does. It has the Service
// default/kubernetes.
type cluster struct {
	client.Reader
	nodes      []corev1.Node
	leases     []coordinationv1.Lease
	services   []networkingv1.ServiceCIDR
	groups     []v2.ServiceGroup
	kubernetes []string
	err        error
	// reads counts the reads of that Service.
	reads int
}

func (c *cluster) List(_ context.Context, to client.ObjectList, _ ...client.ListOption) error {
	switch list := to.(type) {
	case *corev1.NodeList:
		list.Items = inAnyOrder(c.nodes)
	case *coordinationv1.LeaseList:
		list.Items = inAnyOrder(c.leases)
	case *networkingv1.ServiceCIDRList:
		list.Items = inAnyOrder(c.services)
	case *v2.ServiceGroupList:
		list.Items = inAnyOrder(c.groups)
	}
	return nil
}

func (c *cluster) Get(_ context.Context, _ client.ObjectKey, to client.Object, _ ...client.GetOption) error {
	c.reads++
	to.(*corev1.Service).Spec.ClusterIPs = c.kubernetes
	return c.err
}

func inAnyOrder[T any](items []T) []T {
	items = slices.Clone(items)
	rand.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	return items
}

func newConfigWatcher(t *testing.T, cached client.Reader) *configWatcher {
	return &configWatcher{
		cached: cached, allocations: newFixture(t).allocations, backends: backends.New(nil, backends.Options{}), install: census.Install{Namespace: "purelb"}, changed: make(chan struct{}, 1),
		metrics: newMetrics(nil, nil), log: slog.New(slog.DiscardHandler),
		all: func(context.Context) error { return nil },
	}
}

// leaseOf makes the Lease of a node's agent. annotations alternates names and values.
func leaseOf(node string, annotations ...string) coordinationv1.Lease {
	l := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: lease.Prefix + node, Annotations: map[string]string{}}}
	for pair := range slices.Chunk(annotations, 2) {
		l.Annotations[pair[0]] = pair[1]
	}
	return l
}

// nodeWith makes a Node that has addresses.
func nodeWith(name string, addresses ...string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return n
}

func TestOwnStatusWritesCauseNoReconcile(t *testing.T) {
	conditions := func(status metav1.ConditionStatus, generation int64) []metav1.Condition {
		var all []metav1.Condition
		meta.SetStatusCondition(&all, metav1.Condition{
			Type: v2.ConditionAccepted, Status: status, Reason: "Accepted", ObservedGeneration: generation,
		})
		return all
	}
	group := func(generation, allocated int64, conditions []metav1.Condition) *v2.ServiceGroup {
		return &v2.ServiceGroup{
			ObjectMeta: metav1.ObjectMeta{Generation: generation},
			Status:     v2.ServiceGroupStatus{AllocatedIPv4: allocated, Conditions: conditions},
		}
	}
	accepted := conditions("True", 1)
	for _, tt := range []struct {
		name          string
		before, after *v2.ServiceGroup
		looks         int
	}{
		{"counters", group(1, 1, accepted), group(1, 2, accepted), 0},
		{"nothing", group(1, 1, accepted), group(1, 1, accepted), 0},
		{"accepted", group(1, 0, nil), group(1, 0, accepted), 1},
		{"refused", group(1, 0, accepted), group(1, 0, conditions("False", 1)), 1},
		{"edited", group(1, 0, accepted), group(2, 0, accepted), 1},
		{"the accepted generation is the current one", group(2, 0, accepted), group(2, 0, conditions("True", 2)), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer queue.ShutDown()
			changed := make(chan struct{}, 1)
			judging(changed, func(g *v2.ServiceGroup) int { return config.Standing(*g) }).
				Update(t.Context(), event.TypedUpdateEvent[*v2.ServiceGroup]{ObjectOld: tt.before, ObjectNew: tt.after}, queue)
			if queue.Len() != tt.looks {
				t.Errorf("%d looks, want %d", queue.Len(), tt.looks)
			}
			if len(changed)+tt.looks != 1 {
				t.Error("the reporter does not compare the status")
			}
		})
	}
}

func TestRequeueOfAllServicesIsRetried(t *testing.T) {
	var times int
	l := newConfigWatcher(t, &cluster{nodes: []corev1.Node{nodeWith("n1", "192.0.2.1")}})
	l.all = func(context.Context) error {
		if times++; times < 3 {
			return errors.New("the cache cannot be read")
		}
		return nil
	}
	for i := range 5 {
		if _, err := l.Reconcile(t.Context(), reconcile.Request{}); (err != nil) != (i < 2) {
			t.Errorf("attempt %d: %v", i, err)
		}
	}
	if times != 3 {
		t.Errorf("the Services were queued %d times, want 3", times)
	}
}
