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
// restart must not lose claims before the agent knows them.
func TestARestartKeepsClaimsUntilTheAgentNamesOthers(t *testing.T) {
	for name, back := range map[string]time.Duration{"at once": 0, "after an hour": time.Hour, "with the clock set back": -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			s := &stored{o: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}}}
			written := time.Now().Add(-back).Truncate(time.Microsecond)
			New(ofPod(s, "pod-1")).write(s.o, Record{Claims: []Claim{claim("192.0.2.9", 7)}}, 10*time.Second, written)
			l := New(ofPod(s, "pod-1")) // the container restarted
			if got, known := l.Inherited(); known || got != nil {
				t.Errorf("%s: the agent inherits %v before it reads the Lease", name, got)
			}
			renew := func(r Record, want string) {
				t.Helper()
				l.Publish(r)
				if err := l.renewNow(t.Context()); err != nil || s.o.Annotations[AnnotationClaims] != want {
					t.Errorf("%s: the claims are %q, %v; want %q", name, s.o.Annotations[AnnotationClaims], err, want)
				}
			}
			renew(Record{}, "192.0.2.9=02:00:00:00:00:07")
			renew(Record{}, "192.0.2.9=02:00:00:00:00:07")
			heard := written
			if heard.After(time.Now()) {
				heard = time.Now()
			}
			if got, known := l.Inherited(); !known || len(got) != 1 || got[0].Claim != claim("192.0.2.9", 7) || !got[0].At.Equal(heard) {
				t.Errorf("%s: the inherited claims are %v, want one of %v", name, got, heard)
			}
			renew(Record{Claims: []Claim{claim("192.0.2.9", 8)}}, "192.0.2.9=02:00:00:00:00:08")
			renew(Record{Claims: []Claim{}}, "")
		})
	}
}
