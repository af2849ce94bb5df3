package allocator

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	coordinationv1 "k8s.io/api/coordination/v1"

	"purelb.io/purelb/internal/lease"
)

const foreignMAC = "02:00:00:00:00:07"

// reporting is the Lease of the agent of a node whose MAC ends with last, and which
// reports these addresses as answered by the machine with that MAC.
func reporting(node string, last byte, mac string, addresses ...string) coordinationv1.Lease {
	var claims []string
	for _, a := range addresses {
		claims = append(claims, a+"="+mac)
	}
	return leaseOf(node, lease.AnnotationMACs, lease.MAC{2, 0, 0, 0, 0, last}.String(), lease.AnnotationClaims, strings.Join(claims, ","))
}

func TestAnsweredAddressesAreQuarantined(t *testing.T) {
	for _, tt := range []struct {
		name   string
		leases []coordinationv1.Lease
		want   string
	}{
		{"answered by a machine outside the cluster", []coordinationv1.Lease{reporting("n1", 1, foreignMAC, "192.0.2.9", "2001:db8::9"), reporting("n2", 2, "")},
			"map[192.0.2.9:an address of another machine, 02:00:00:00:00:07, as node n1 reports" +
				" 2001:db8::9:an address of another machine, 02:00:00:00:00:07, as node n1 reports]"},
		{"answered by a node", []coordinationv1.Lease{reporting("n1", 1, "02:00:00:00:00:02", "192.0.2.9"), reporting("n2", 2, "")}, "map[]"},
		{"while it is not known whether that is a node", []coordinationv1.Lease{
			reporting("n1", 1, foreignMAC, "192.0.2.9"), leaseOf("n2", lease.AnnotationSubnets, "192.0.2.0/24")}, "map[]"},
		{"reported by several nodes", []coordinationv1.Lease{
			reporting("n2", 2, "02:00:00:00:00:08", "192.0.2.9"), reporting("n1", 1, foreignMAC, "192.0.2.9")},
			"map[192.0.2.9:an address of another machine, 02:00:00:00:00:07, as node n1 reports]"},
		{"by agents of an earlier version", []coordinationv1.Lease{leaseOf("n1")}, "map[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 10 {
				if got := fmt.Sprint(quarantined(inAnyOrder(tt.leases))); got != tt.want {
					t.Fatalf("got  %s\nwant %s", got, tt.want)
				}
			}
		})
	}
}

// A machine that answers for every address would empty a pool, one address for each
// Service that is given another.
func TestQuarantinesAreCountedAndLogged(t *testing.T) {
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

func TestTheAddressOfANodeIsNamedAsSuch(t *testing.T) {
	a := netip.MustParseAddr("192.0.2.9")
	other := map[netip.Addr]string{a: "an address of another machine"}
	if got := reserved(nodeOf{a: "n1"}, nodeOf{a: "n2"}, other)[a]; got != "an address of node n1" {
		t.Errorf("it is %s", got)
	}
	if got := reserved(nil, nodeOf{a: "n2"}, other)[a]; got != "the default gateway of node n2" {
		t.Errorf("it is %s", got)
	}
}
