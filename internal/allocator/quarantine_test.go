package allocator

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	coordinationv1 "k8s.io/api/coordination/v1"

	"purelb.io/purelb/internal/lease"
)

const foreignMAC = "02:00:00:00:00:07"

// reporting returns the Lease of a node's agent. The MAC of the node ends with last. The
// agent reports that the machine with mac answers for these addresses.
func reporting(node string, last byte, mac string, addresses ...string) coordinationv1.Lease {
	var claims []string
	for _, a := range addresses {
		claims = append(claims, a+"="+mac)
	}
	return leaseOf(node, lease.AnnotationMACs, lease.MAC{2, 0, 0, 0, 0, last}.String(), lease.AnnotationClaims, strings.Join(claims, ","))
}

// A machine that answers for every address would empty a pool, because each Service that avoids it
// takes another address.
func TestQuarantineIsCountedAndLogged(t *testing.T) {
	cached := &shuffled{leases: []coordinationv1.Lease{reporting("n1", 1, "")}}
	l := newConfigWatcher(t, cached)
	var log bytes.Buffer
	l.log = slog.New(slog.NewTextHandler(&log, nil))
	look := func(addresses ...string) string {
		t.Helper()
		log.Reset()
		cached.leases[0] = reporting("n1", 1, foreignMAC, addresses...)
		if _, err := l.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		return log.String()
	}
	if text := look("192.0.2.9", "192.0.2.10"); strings.Count(text, "addressQuarantined") != 2 || !strings.Contains(text, foreignMAC) {
		t.Errorf("logged:\n%s", text)
	}
	if n := testutil.ToFloat64(l.metrics.quarantined); n != 2 {
		t.Errorf("%v are counted, want 2", n)
	}
	if text := look("192.0.2.9", "192.0.2.10"); text != "" {
		t.Errorf("logged again:\n%s", text)
	}
	if text := look("192.0.2.10"); strings.Count(text, "quarantineEnded") != 1 || !strings.Contains(text, "192.0.2.9") {
		t.Errorf("logged:\n%s", text)
	}
	if n := testutil.ToFloat64(l.metrics.quarantined); n != 1 {
		t.Errorf("%v are counted, want 1", n)
	}
}
