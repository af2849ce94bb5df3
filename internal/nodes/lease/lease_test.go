package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

func TestMain(m *testing.M) { os.Exit(apitest.Run(m)) }

// api returns the Lease client of a fresh namespace of a real API server.
// Tests with an API server run in parallel: most of their time they wait for it, or for a Lease to
// expire.
func api(t *testing.T) coordination.LeaseInterface {
	t.Helper()
	t.Parallel()
	clients, err := kubernetes.NewForConfig(apitest.Config(t))
	expect.NoError(t, err)
	return clients.CoordinationV1().Leases(apitest.Namespace(t))
}

func record(subnets ...string) Record {
	r := Record{NodeUID: "node-uid", Agent: "purelb/default"}
	for _, s := range subnets {
		r.Subnets = append(r.Subnets, netip.MustParsePrefix(s))
	}
	return r
}

// start runs the Leases of node until the test ends or the caller calls stop.
func start(t *testing.T, client coordination.LeaseInterface, node string, duration time.Duration) (l *Leases, stop func()) {
	l = New(Options{
		Changed: make(chan struct{}, 1),
		Client:  client, Node: node, Instance: "pod-of-" + node,
		Duration: duration, RenewDeadline: duration * 7 / 10, RetryPeriod: duration / 5,
		Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		ended <- nil
	}
	t.Cleanup(stop)
	return l, stop
}

// Peers returns the result of the election with only the evidence of l.
func (l *Leases) Peers() election.Peers { return l.peersAt(time.Now()) }

// peersAt is like Peers, at the time now.
func (l *Leases) peersAt(now time.Time) election.Peers {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table.peers(now)
}

// await waits until wanted is true for the election's result from l.
func await(t *testing.T, l *Leases, what string, wanted func(election.Peers) bool) {
	t.Helper()
	limit := time.After(30 * time.Second)
	for !wanted(l.Peers()) {
		select {
		case <-l.opt.Changed:
		case <-limit:
			t.Fatalf("30 s passed without this: %s; the result is %s", what, showPeers(l.Peers()))
		}
	}
}

func members(nodes ...string) func(election.Peers) bool {
	return func(p election.Peers) bool {
		var got []string
		for _, m := range p.Members {
			got = append(got, m.Node)
		}
		return p.Trusted && cmp.Equal(got, nodes)
	}
}

func get(t *testing.T, client coordination.LeaseInterface, node string) *coordinationv1.Lease {
	t.Helper()
	o, err := client.Get(t.Context(), Prefix+node, metav1.GetOptions{})
	expect.NoError(t, err)
	return o
}

func TestTheLeaseCarriesTheRecord(t *testing.T) {
	client := api(t)
	l, _ := start(t, client, "node-a", 10*time.Second)
	own := record("192.0.2.0/24", "2001:db8::/64")
	own.Addresses = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	own.Gateways = []netip.Addr{netip.MustParseAddr("192.0.2.254"), netip.MustParseAddr("2001:db8::fe")}
	own.MACs = []MAC{{2, 0, 0, 0, 0, 1}}
	own.Claims = []Claim{claim("192.0.2.9", 7)}
	l.Publish(own)
	await(t, l, "node-a is known", members("node-a"))

	o := get(t, client, "node-a")
	got := []any{o.Labels, o.Annotations, *o.Spec.HolderIdentity, *o.Spec.LeaseDurationSeconds, o.OwnerReferences}
	want := []any{
		map[string]string{"app.kubernetes.io/name": "purelb", "app.kubernetes.io/component": "lbnodeagent"},
		map[string]string{
			AnnotationSubnets: "192.0.2.0/24,2001:db8::/64", AnnotationAddresses: "192.0.2.1,2001:db8::1",
			AnnotationGateways: "192.0.2.254,2001:db8::fe", AnnotationInstance: "pod-of-node-a", AnnotationAgent: "purelb/default",
			AnnotationMACs: "02:00:00:00:00:01", AnnotationClaims: "192.0.2.9=02:00:00:00:00:07",
		},
		"node-a", int32(10),
		[]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "node-a", UID: "node-uid"}},
	}
	expect.Equal(t, "the Lease", got, want)

	r := record()
	r.Problem = "no interface matches"
	l.Publish(r)
	await(t, l, "no subnets", func(p election.Peers) bool { return len(p.Known) == 0 })
	o = get(t, client, "node-a")
	if subnets, ok := o.Annotations[AnnotationSubnets]; !ok || subnets != "" || o.Annotations[AnnotationProblem] != r.Problem {
		t.Errorf("the annotations are %v", o.Annotations)
	}
}

func TestAnExistingLeaseIsTakenOver(t *testing.T) {
	client := api(t)
	holder, seconds, note := "somebody", int32(300), map[string]string{"example.com/note": "kept"}
	_, err := client.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: Prefix + "node-a", Annotations: note},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds},
	}, metav1.CreateOptions{})
	expect.NoError(t, err)
	l, _ := start(t, client, "node-a", 10*time.Second)
	l.Publish(record("192.0.2.0/24"))
	await(t, l, "node-a is known", members("node-a"))
	o := get(t, client, "node-a")
	if *o.Spec.HolderIdentity != "node-a" || *o.Spec.LeaseDurationSeconds != 10 || len(o.Labels) != 2 || o.Annotations["example.com/note"] != "kept" {
		t.Errorf("the Lease is %+v", o)
	}
}

func TestNodesObserveJoinSilenceAndLeave(t *testing.T) {
	client := api(t)
	a, _ := start(t, client, "node-a", 2*time.Second)
	a.Publish(record("192.0.2.0/24"))
	b, stopB := start(t, client, "node-b", 2*time.Second)
	b.Publish(record("198.51.100.0/24"))
	c, stopC := start(t, client, "node-c", 2*time.Second)
	c.Publish(record("203.0.113.0/24"))
	for _, l := range []*Leases{a, b, c} {
		await(t, l, "all see all", members("node-a", "node-b", "node-c"))
	}
	stopB()
	await(t, a, "node-b is dead", members("node-a", "node-c"))
	expect.Equal(t, "known subnets", len(a.Peers().Known), 3)
	stopC()
	if err := c.Delete(t.Context()); err != nil {
		t.Error(err)
	}
	await(t, a, "the result no longer has node-c", members("node-a"))
	expect.Equal(t, "known subnets", len(a.Peers().Known), 2)
}

// late is an API server that executes a renewal late: its client has given up, and has sent the next
// Get.
type late struct {
	coordination.LeaseInterface
	renewals *atomic.Int32
}

func (l late) Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error) {
	found, err := l.LeaseInterface.Get(ctx, name, o)
	if err == nil && l.renewals.Add(-1) >= 0 {
		renewed := found.DeepCopy()
		renewed.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		_, err = l.Update(ctx, renewed, metav1.UpdateOptions{})
	}
	return found, err
}

func TestLateRenewalDoesNotKeepALease(t *testing.T) {
	client := api(t)
	var renewals atomic.Int32
	l, stop := start(t, late{client, &renewals}, "node-a", 10*time.Second)
	l.Publish(record("192.0.2.0/24"))
	await(t, l, "node-a is known", members("node-a"))
	stop()
	renewals.Store(2)
	if err := l.Delete(t.Context()); err != nil {
		t.Error(err)
	}
	if o, err := client.Get(t.Context(), Prefix+"node-a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Lease still exists: %v, %v", o, err)
	}
}

// away is an API server that refuses requests or does not answer them.
type away struct {
	coordination.LeaseInterface
	hangs bool
}

var errAway = errors.New("connection refused")

func (a away) Get(ctx context.Context, _ string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	return nil, a.answer(ctx)
}

func (a away) List(ctx context.Context, _ metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	return nil, a.answer(ctx)
}

func (a away) answer(ctx context.Context) error {
	if a.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return errAway
}

func TestRegainedNetworksSettleWithoutTheAPIServer(t *testing.T) {
	for _, tt := range []struct{ polls, hangs bool }{{true, false}, {false, false}, {true, true}, {false, true}} {
		synctest.Test(t, func(t *testing.T) {
			l, stop := start(t, away{hangs: tt.hangs}, "node-a", 10*time.Second)
			defer stop()
			l.SetMode(Mode{Poll: tt.polls})
			l.update(func(t *table) { t.listed, t.settled = time.Now(), time.Now() })
			l.Publish(record())
			time.Sleep(time.Minute)
			l.Publish(record("192.0.2.0/24"))
			if l.View().Settled {
				t.Error("the node is settled before the other nodes can know its networks")
			}
			limit := time.After(l.opt.RetryPeriod + time.Millisecond)
			for !l.View().Settled {
				select {
				case <-l.opt.Changed:
				case <-limit:
					t.Fatalf("polls %t, hangs %t: no signal that the node is settled", tt.polls, tt.hangs)
				}
			}
		})
	}
}

// full is an API server that accepts no new Lease while off is set.
type full struct {
	coordination.LeaseInterface
	off atomic.Bool
}

func (f *full) Create(ctx context.Context, o *coordinationv1.Lease, opt metav1.CreateOptions) (*coordinationv1.Lease, error) {
	if f.off.Load() {
		return nil, errors.New("exceeded quota")
	}
	return f.LeaseInterface.Create(ctx, o, opt)
}

func TestADeletedLeaseIsWrittenAgain(t *testing.T) {
	server := &full{LeaseInterface: api(t)}
	l, _ := start(t, server, "node-a", 10*time.Second)
	l.Publish(record("192.0.2.0/24"))
	await(t, l, "node-a is known", members("node-a"))

	// The API server refuses new Leases until this test has seen the effects of the deletion.
	server.off.Store(true)
	expect.NoError(t, server.Delete(t.Context(), Prefix+"node-a", metav1.DeleteOptions{}))
	await(t, l, "the result is not trusted", func(p election.Peers) bool { return !p.Trusted && !l.View().Settled })
	server.off.Store(false)
	await(t, l, "node-a is known again", members("node-a"))
}

// An agent of PureLB 0.17 that ends after the new agent of its node has begun renews the Lease until then, and
// deletes it.
func TestALeaseThatAnEarlierAgentDeletesIsWrittenAgainSoon(t *testing.T) {
	client := api(t)
	seconds := int32(2)
	earlier := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: Prefix + "node-a", Annotations: map[string]string{AnnotationInstance: "earlier"}},
		Spec:       coordinationv1.LeaseSpec{LeaseDurationSeconds: &seconds},
	}
	_, err := client.Create(t.Context(), earlier, metav1.CreateOptions{})
	expect.NoError(t, err)
	l, _ := start(t, client, "node-a", 2*time.Second)
	l.SetMode(Mode{}) // gossip hears the other nodes
	l.Publish(record("192.0.2.0/24"))
	taken := func(when string) {
		t.Helper()
		for limit := time.Now().Add(10 * time.Second); time.Now().Before(limit); time.Sleep(50 * time.Millisecond) {
			o, err := client.Get(t.Context(), Prefix+"node-a", metav1.GetOptions{})
			if err == nil && o.Annotations[AnnotationInstance] == "pod-of-node-a" {
				return
			}
		}
		t.Fatalf("%s, the agent did not write its Lease within 10 s", when)
	}
	taken("at its start")
	for {
		o := get(t, client, "node-a")
		o.Annotations[AnnotationInstance] = "earlier"
		_, err := client.Update(t.Context(), o, metav1.UpdateOptions{})
		if err == nil {
			break
		}
		if !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
	taken("after a renewal by the earlier agent")
	expect.NoError(t, client.Delete(t.Context(), Prefix+"node-a", metav1.DeleteOptions{}))
	taken("after the end of the earlier agent")
}

func TestDeleteLeavesTheLeaseOfAnotherInstance(t *testing.T) {
	client := api(t)
	l, stop := start(t, client, "node-a", 10*time.Second)
	l.Publish(record("192.0.2.0/24"))
	await(t, l, "node-a is known", members("node-a"))
	stop()

	// A late renewal may arrive after the end of l. It does not make a patch fail.
	belongsTo := func(pod string) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, AnnotationInstance, pod)
		if _, err := client.Patch(t.Context(), Prefix+"node-a", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	belongsTo("the next pod")
	if err := l.Delete(t.Context()); err != nil {
		t.Error(err)
	}
	get(t, client, "node-a")

	belongsTo("pod-of-node-a")
	if err := l.Delete(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := client.Get(t.Context(), Prefix+"node-a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("our own Lease still exists: %v", err)
	}
	if err := l.Delete(t.Context()); err != nil {
		t.Errorf("a second Delete returns %v", err)
	}
}

// hung is an API server that accepts new Leases, and never answers a renewal.
type hung struct{ coordination.LeaseInterface }

func (hung) List(context.Context, metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	time.Sleep(time.Millisecond) // an answer takes some time on the clock of the bubble
	return &coordinationv1.LeaseList{}, nil
}

func (hung) Get(_ context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	return nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), name)
}

func (hung) Create(_ context.Context, o *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	o.ResourceVersion = "1"
	return o, nil
}

func (hung) Update(ctx context.Context, _ *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestHangingRenewalTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 100)
		l := New(Options{
			Changed: make(chan struct{}, 1),
			Client:  hung{}, Node: "node-a", Instance: "pod",
			Duration: 10 * time.Second, RenewDeadline: 7 * time.Second, RetryPeriod: 2 * time.Second,
			Log: slog.New(slog.DiscardHandler), Renewed: func(err error) { ended <- err },
		})
		l.SetMode(Mode{Fast: true})
		l.Publish(record("192.0.2.0/24"))
		go func() { _ = l.Run(t.Context()) }()
		if err := <-ended; err != nil {
			t.Errorf("the first renewal creates the Lease: %v", err)
		}
		began := time.Now()
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the second renewal has the error %v, want a timeout", err)
		}
		if took, most := time.Since(began), l.duration()/3+l.opt.RenewDeadline; took > most {
			t.Errorf("the renewal timed out after %s, want %s", took, most)
		}
	})
}

func TestASlowLeaseHasALongDuration(t *testing.T) {
	client := api(t)
	l, _ := start(t, client, "node-a", 2*time.Second)
	l.SetMode(Mode{})
	l.Publish(record("192.0.2.0/24"))
	for !l.View().Settled {
		<-l.opt.Changed
	}
	expect.Equal(t, "the duration of the Lease", *get(t, client, "node-a").Spec.LeaseDurationSeconds, 180)
	l.SetMode(Mode{Fast: true})
	for *get(t, client, "node-a").Spec.LeaseDurationSeconds != 2 {
		<-l.opt.Changed
	}
}

func TestDeleteIsFinal(t *testing.T) {
	client := api(t)
	l, _ := start(t, client, "node-a", 10*time.Second)
	l.Publish(record("192.0.2.0/24"))
	await(t, l, "node-a is known", members("node-a"))
	expect.NoError(t, l.Delete(t.Context()))
	await(t, l, "the table has no Lease", func(p election.Peers) bool { return len(p.Members) == 0 })
	if err := l.renewNow(t.Context()); err != nil {
		t.Error(err)
	}
	if all, err := client.List(t.Context(), metav1.ListOptions{}); err != nil || len(all.Items) != 0 {
		t.Errorf("the Lease is %v, %v", all, err)
	}
}

func TestTheLeaseCarriesGossipAddressAndDraining(t *testing.T) {
	l, gossip := New(Options{Node: "node-a"}), netip.MustParseAddrPort("[2001:db8::1]:7934")
	o := &coordinationv1.Lease{}
	l.write(o, Record{Draining: "cordoned", Gossip: gossip}, time.Minute, at(0))
	if got, why := Gossip(o), o.Annotations[AnnotationDraining]; got != gossip || why != "cordoned" || !Draining(o) {
		t.Errorf("the Lease has the gossip address %s and draining %q", got, why)
	}
	l.write(o, Record{}, time.Minute, at(0))
	if _, there := o.Annotations[AnnotationGossip]; there || Draining(o) {
		t.Errorf("the annotations are %v", o.Annotations)
	}
	for _, text := range []string{"", "192.0.2.1", "192.0.2.1:0", "node:7934"} {
		o.Annotations[AnnotationGossip] = text
		if got := Gossip(o); got.IsValid() {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}
