package allocate

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	coordinationv1 "k8s.io/api/coordination/v1"

	"purelb.io/purelb/internal/nodes/lease"
)

// A machine that answers for every address would empty a pool, because each Service that avoids it
// takes another address.
func TestQuarantineIsCountedAndLogged(t *testing.T) {
	cached := &cluster{}
	l := newConfigWatcher(t, cached)
	var log bytes.Buffer
	l.log = slog.New(slog.NewTextHandler(&log, nil))
	const foreignMAC = "02:00:00:00:00:07"
	look := func(claims string) string {
		t.Helper()
		log.Reset()
		cached.leases = []coordinationv1.Lease{leaseOf("n1", lease.AnnotationMACs, "02:00:00:00:00:01", lease.AnnotationClaims, claims)}
		if _, err := l.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		return log.String()
	}
	if text := look("192.0.2.9=" + foreignMAC + ",192.0.2.10=" + foreignMAC); strings.Count(text, "addressQuarantined") != 2 || !strings.Contains(text, foreignMAC) {
		t.Errorf("logged:\n%s", text)
	}
	if n := testutil.ToFloat64(l.metrics.quarantined); n != 2 {
		t.Errorf("%v are counted, want 2", n)
	}
	if text := look("192.0.2.9=" + foreignMAC + ",192.0.2.10=" + foreignMAC); text != "" {
		t.Errorf("logged again:\n%s", text)
	}
	if text := look("192.0.2.10=" + foreignMAC); strings.Count(text, "quarantineEnded") != 1 || !strings.Contains(text, "192.0.2.9") {
		t.Errorf("logged:\n%s", text)
	}
	if n := testutil.ToFloat64(l.metrics.quarantined); n != 1 {
		t.Errorf("%v are counted, want 1", n)
	}
}
