package lease

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// stored is an API server with the Lease of node-a.
type stored struct {
	coordination.LeaseInterface
	o *coordinationv1.Lease
}

func (s *stored) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	return s.o.DeepCopy(), nil
}

func (s *stored) Update(_ context.Context, o *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	s.o = o.DeepCopy()
	return o, nil
}

func claim(ip string, mac byte) Claim {
	return Claim{Addr: netip.MustParseAddr(ip), MAC: MAC{2, 0, 0, 0, 0, mac}}
}

// ofPod returns the options of the agent on node-a with this pod.
func ofPod(s *stored, pod string) Options {
	return Options{
		Client: s, Node: "node-a", Instance: pod,
		Duration: 10 * time.Second, RenewDeadline: 7 * time.Second, RetryPeriod: 2 * time.Second, Log: slog.New(slog.DiscardHandler),
	}
}

// The allocator may assign an address as soon as no Lease has a claim of another machine on it. So a
// restart must not lose claims.
func TestRestartKeepsClaims(t *testing.T) {
	for _, tt := range []struct {
		name        string
		away, after time.Duration // from the last write of the previous agent to the start of this one, and from then to the write
		want        string
	}{
		{"at once", time.Second, 0, "192.0.2.9=02:00:00:00:00:08,192.0.2.10=02:00:00:00:00:07"},
		{"within ten minutes", time.Minute, 8 * time.Minute, "192.0.2.9=02:00:00:00:00:08,192.0.2.10=02:00:00:00:00:07"},
		{"later", time.Minute, 9 * time.Minute, "192.0.2.9=02:00:00:00:00:08"},
		{"after a long time without an agent", time.Hour, 0, "192.0.2.9=02:00:00:00:00:08"},
		{"with the clock set back", -time.Hour, 9 * time.Minute, "192.0.2.9=02:00:00:00:00:08,192.0.2.10=02:00:00:00:00:07"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &stored{o: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}}}
			options := ofPod(s, "pod-1")
			before := Record{Claims: []Claim{claim("192.0.2.9", 7), claim("192.0.2.10", 7)}}
			New(options).write(s.o, before, 10*time.Second, time.Now())
			time.Sleep(max(0, tt.away))
			s.o.Spec.RenewTime.Time = time.Now().Add(-tt.away)

			l := New(options)
			l.Publish(Record{Claims: []Claim{claim("192.0.2.9", 8)}})
			err := l.renewNow(t.Context())
			if tt.after > 0 && err == nil {
				time.Sleep(tt.after)
				err = l.renewNow(t.Context())
			}
			if got := s.o.Annotations[AnnotationClaims]; err != nil || got != tt.want {
				t.Errorf("%s: the claims are %q, %v; want %q", tt.name, got, err, tt.want)
			}
		})
	}
}

func TestInheritedClaimsCountUntilTheyArePublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stored{o: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}}}
		written := time.Now().Truncate(time.Microsecond)
		New(ofPod(s, "pod-1")).write(s.o, Record{Claims: []Claim{claim("192.0.2.9", 7)}}, 10*time.Second, written)
		time.Sleep(time.Minute)
		l := New(ofPod(s, "pod-1")) // the container restarted
		if got := l.Inherited(); got != nil {
			t.Errorf("the agent inherits %v before it reads the Lease", got)
		}
		renew := func(want string) {
			t.Helper()
			if err := l.renewNow(t.Context()); err != nil || s.o.Annotations[AnnotationClaims] != want {
				t.Errorf("the claims are %q, %v; want %q", s.o.Annotations[AnnotationClaims], err, want)
			}
		}
		l.Publish(Record{})
		renew("192.0.2.9=02:00:00:00:00:07")
		if got := l.Inherited(); len(got) != 1 || got[0].Claim != claim("192.0.2.9", 7) || !got[0].At.Equal(written) {
			t.Errorf("the inherited claims are %v", got)
		}
		if got := l.Inherited(); got != nil {
			t.Errorf("after a second write, the inherited claims are %v", got)
		}
		renew("192.0.2.9=02:00:00:00:00:07")
		l.Publish(Record{})
		renew("")
	})
}
