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

// stored is an API server that has the Lease of node-a.
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

// TestRestartKeepsClaims: the allocator may hand out an address as soon as no Lease
// reports that another machine has it.
func TestRestartKeepsClaims(t *testing.T) {
	claim := func(ip string, mac byte) Claim { return Claim{netip.MustParseAddr(ip), MAC{2, 0, 0, 0, 0, mac}} }
	for _, tt := range []struct {
		name        string
		away, after time.Duration // from the last write of the agent before to the start, and from that to the write
		want        string
	}{
		{"at once", time.Second, 0, "192.0.2.9=02:00:00:00:00:08,192.0.2.10=02:00:00:00:00:07"},
		{"within ten minutes", time.Minute, 8 * time.Minute, "192.0.2.9=02:00:00:00:00:08,192.0.2.10=02:00:00:00:00:07"},
		{"later", time.Minute, 9 * time.Minute, "192.0.2.9=02:00:00:00:00:08"},
		{"after a long time without an agent", time.Hour, 0, "192.0.2.9=02:00:00:00:00:08"},
		{"with the clock set back", -time.Hour, 9 * time.Minute, "192.0.2.9=02:00:00:00:00:08,192.0.2.10=02:00:00:00:00:07"},
	} {
		synctest.Test(t, func(t *testing.T) {
			options := Options{Node: "node-a", Duration: 10 * time.Second, RenewDeadline: 7 * time.Second, RetryPeriod: 2 * time.Second, Log: slog.New(slog.DiscardHandler)}
			s := &stored{o: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}}}
			options.Client = s
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
				t.Errorf("%s: claimed are %q, %v; want %q", tt.name, got, err, tt.want)
			}
		})
	}
}
