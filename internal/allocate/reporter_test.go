package allocate

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/allocate/census"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/kube/events"
)

// fakeGroupServer is an API server with one group. It records the times at which the status is
// written.
type fakeGroupServer struct {
	client.Client
	group  v2.ServiceGroup
	began  time.Time
	writes []string
}

func (b *fakeGroupServer) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if groups, ok := list.(*v2.ServiceGroupList); ok {
		groups.Items = []v2.ServiceGroup{*b.group.DeepCopy()}
	}
	return nil
}

func (b *fakeGroupServer) Status() client.SubResourceWriter { return fakeGroupStatus{server: b} }

// fakeGroupStatus is the part of a fakeGroupServer that writes the status.
type fakeGroupStatus struct {
	client.SubResourceWriter
	server *fakeGroupServer
}

func (b fakeGroupStatus) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	b.server.group = *o.(*v2.ServiceGroup).DeepCopy()
	b.server.writes = append(b.server.writes, fmt.Sprintf("%s: %d", time.Since(b.server.began), b.server.group.Status.AllocatedIPv4))
	return nil
}

func TestStatusOfAGroupIsWrittenAtOnceAndThenAtAPace(t *testing.T) {
	tests := []struct {
		name string
		// after are the pauses before each allocation.
		after []time.Duration
		want  []string
	}{
		{"without a change", nil, nil},
		{"after one change", []time.Duration{0}, []string{"0s: 1"}},
		{"after a second change", []time.Duration{0, time.Second}, []string{"0s: 1", "5s: 2"}},
		{
			"while changes go on", []time.Duration{0, 2500 * time.Millisecond, time.Second, time.Second, time.Second, time.Second},
			[]string{"0s: 1", "5.5s: 4", "10.5s: 6"},
		},
		{"after the last address is allocated", []time.Duration{0, 0, 0, 0, 0, 0, 0, 0, 0}, []string{"0s: 9"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, b, s := reporterOfNine(t)
				ctx, end := context.WithCancel(t.Context())
				go func() { _ = r.Start(ctx) }()
				backoff.Poke(r.changed)
				time.Sleep(time.Minute) // the group becomes accepted
				synctest.Wait()
				b.began, b.writes = time.Now(), nil
				for i, pause := range tt.after {
					time.Sleep(pause)
					synctest.Wait()
					if _, err := s.decide(s.wants(fmt.Sprint("web", i))); err != nil {
						t.Fatal(err)
					}
					if i+1 == len(tt.after) || tt.after[i+1] > 0 {
						backoff.Poke(r.changed)
					}
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if diff := cmp.Diff(tt.want, b.writes); diff != "" {
					t.Errorf("writes (-want +got):\n%s", diff)
				}
				end()
				synctest.Wait()
			})
		})
	}
}

// reporterOfNine returns a reporter of a group with nine addresses.
func reporterOfNine(t *testing.T) (*reporter, *fakeGroupServer, *fixture) {
	g := group(t, "default", "192.0.2.1-192.0.2.9")
	g.UID = "1"
	s := newFixture(t, g)
	b := &fakeGroupServer{group: v2.ServiceGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "purelb-system", Name: "default", UID: "1"}}}
	r := &reporter{
		cached: b, client: b, allocations: s.allocations, metrics: newMetrics(nil, nil), changed: make(chan struct{}, 1),
		configWatcher: &configWatcher{now: clusterState{State: census.State{Config: config.Config{Groups: groups.Groups{Usable: []groups.Group{g}}}}}},
		events:        events.New(nil, corev1.EventSource{}, slog.New(slog.DiscardHandler)), /* not run: nothing is written */
		log:           slog.New(slog.DiscardHandler),
	}
	return r, b, s
}
