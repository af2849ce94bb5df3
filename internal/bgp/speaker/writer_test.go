package speaker

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/bgp/speaker/cluster"
	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

// requests is a RoundTripper that lists the requests and forwards them.
type requests struct {
	list *[]string
	to   http.RoundTripper
}

func (r requests) RoundTrip(request *http.Request) (*http.Response, error) {
	path := request.URL.Path
	*r.list = append(*r.list, request.Method+" "+path[strings.LastIndex(path, "/")+1:])
	return r.to.RoundTrip(request)
}

// recorded returns clients that add their requests to list.
func recorded(t testing.TB, list *[]string) cluster.Clients {
	t.Helper()
	config := rest.CopyConfig(apitest.Config(t))
	config.Wrap(func(to http.RoundTripper) http.RoundTripper { return requests{list, to} })
	clients, err := cluster.NewClients(config)
	expect.NoError(t, err)
	return clients
}

func TestTheNodeStatusIsOneRequestAndKeepsForeignFields(t *testing.T) {
	c := newInstall(t)
	var list []string
	clients := recorded(t, &list)
	node := "writer-of-" + c.namespace
	now := time.Now()
	n := nodeWriter{gaps: gaps}
	write := func(what, want string) {
		t.Helper()
		list = nil
		now = now.Add(time.Second)
		r := NodeReport{Enabled: true, Heartbeat: time.Minute, Status: bgpv1.BGPNodeStatusStatus{NodeName: node, RouterIDSource: what}}
		if size, err := n.write(t.Context(), clients, r, now); err != nil || size == 0 {
			t.Errorf("%s: the write has %d bytes and the error %v", what, size, err)
		}
		if got := strings.Join(list, ", "); got != want {
			t.Errorf("%s: the requests are %q, want %q", what, got, want)
		}
		if got := c.nodeStatus(node).Status.RouterIDSource; got != what {
			t.Errorf("the status says %q, want %q", got, what)
		}
	}
	write("new", "PATCH "+node+", PATCH status")
	write("changed", "PATCH status")

	theirs := c.nodeStatus(node)
	theirs.Labels = map[string]string{"team": "network"}
	expect.NoError(t, c.clients.BGP.Put().Resource(cluster.NodeStatuses).Name(node).Body(&theirs).Do(t.Context()).Error())
	write("another program set a label", "PATCH status")
	if got := c.nodeStatus(node).Labels["team"]; got != "network" {
		t.Errorf("the label of another program is %q", got)
	}

	expect.NoError(t, c.clients.BGP.Delete().Resource(cluster.NodeStatuses).Name(node).Do(t.Context()).Error())
	write("another program deleted it", "PATCH status, PATCH "+node+", PATCH status")
	write("the last change", "PATCH status")
}

// An earlier version wrote the status with PUT. The speaker must remove the fields of that version
// that no longer apply.
func TestFieldsOfAnEarlierVersionAreRemoved(t *testing.T) {
	c := newInstall(t)
	node := "upgraded-of-" + c.namespace
	since := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	ready := metav1.Condition{Type: bgpv1.ConditionReady, Status: metav1.ConditionTrue, Reason: "AllHealthy", LastTransitionTime: since}
	object := bgpv1.BGPNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: node}}
	expect.NoError(t, c.clients.BGP.Post().Resource(cluster.NodeStatuses).Body(&object).Do(t.Context()).Into(&object))
	object.Status = bgpv1.BGPNodeStatusStatus{
		NodeName: node, VRFs: []bgpv1.NodeVRF{{Name: "red", RD: "1:1"}}, Conditions: []metav1.Condition{ready},
		RIB: &bgpv1.NodeRIB{LocalRouteCount: 1, LocalRoutes: []bgpv1.RIBRoute{{Prefix: "192.0.2.1/32", NextHop: "0.0.0.0"}}, Truncated: true},
	}
	expect.NoError(t, c.clients.BGP.Put().Resource(cluster.NodeStatuses).Name(node).SubResource("status").Body(&object).Do(t.Context()).Error())
	ready.LastTransitionTime = metav1.Now()
	status := bgpv1.BGPNodeStatusStatus{NodeName: node, Healthy: true, Conditions: []metav1.Condition{ready}, RIB: &bgpv1.NodeRIB{}}
	n := nodeWriter{gaps: gaps}
	if _, err := n.write(t.Context(), c.clients, NodeReport{Enabled: true, Heartbeat: time.Minute, Status: status}, time.Now()); err != nil {
		t.Fatal(err)
	}
	got := c.nodeStatus(node).Status
	if len(got.VRFs) != 0 || got.RIB.Truncated || len(got.RIB.LocalRoutes) != 0 || !got.Healthy {
		t.Errorf("the status has fields of the earlier version: %+v", got)
	}
	if is := got.Conditions[0].LastTransitionTime; !is.Equal(&since) {
		t.Errorf("the time of the unchanged condition is %v, want %v", is, since)
	}
}

// busyReport returns the report of a node with 500 addresses and two neighbors with BFD.
func busyReport(node string, now time.Time, up bool) peering.Report {
	r := peering.Report{Node: node, Now: now, Decision: peering.Decision{OK: true, StatusEnabled: true, Heartbeat: time.Minute, RouterIDSource: "node-ipv4"}}
	r.Decision.State.Global = peering.Global{ASN: 65000, RouterID: netip.MustParseAddr("192.0.2.10")}
	r.Decision.Import.Enabled = true
	r.Interfaces = []peering.Interface{{Name: "kube-lb0", Exists: true, Up: true}}
	since := now.Truncate(time.Hour)
	for i := range 500 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, 113 + byte(i>>8), byte(i)}), 32)
		r.Imported = append(r.Imported, peering.Imported{Address: p, Interface: "kube-lb0"})
		r.Local = append(r.Local, peering.Route{Prefix: p, Attributes: peering.Attributes{Communities: []uint32{65000<<16 | 7}}})
	}
	for _, a := range []string{"192.0.2.1", "192.0.2.2"} {
		n := peering.NeighborStatus{Address: netip.MustParseAddr(a), State: peering.Established, Since: since, UpSince: since, PeerASN: 64513, LocalASN: 65000}
		if !up && a == "192.0.2.1" {
			n.State, n.Since, n.UpSince, n.LastError = peering.Active, now, time.Time{}, "hold timer expired"
		}
		r.Decision.State.Peers = append(r.Decision.State.Peers, peering.Peer{Address: n.Address})
		r.Neighbors = append(r.Neighbors, n)
	}
	r.BFD = map[string]string{"192.0.2.1": "Up", "192.0.2.2": "Up"}
	return r
}

// These are limits for the status of a node with 500 addresses, in bytes that the API server
// stores in a minute.
const (
	mostIdleBytes     = 4096
	mostFlappingBytes = 20_000
)

// stored returns the number of bytes that the API server stores in a minute for a node. The node
// has a new report every second. In it, up says whether a neighbor is Established.
func stored(t testing.TB, node string, up func(second int) bool) (perMinute float64, writes int) {
	t.Helper()
	clients := recorded(t, new([]string))
	const minutes = 10
	n := nodeWriter{gaps: gaps}
	var last bgpv1.BGPNodeStatusStatus
	bytes, began := 0, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for second := range minutes * 60 {
		now := began.Add(time.Duration(second) * time.Second)
		last = peering.NodeStatus(busyReport(node, now, up(second)), last)
		last.HeartbeatSeconds = 60
		if now.Before(n.earliest) {
			continue // as Writer.Run does
		}
		size, err := n.write(t.Context(), clients, NodeReport{Enabled: true, NodeUID: "77a8", Heartbeat: time.Minute, Status: last}, now)
		if err == nil {
			bytes, writes = bytes+size, writes+1
		} else if !errors.Is(err, errSkipped) {
			t.Fatal(err)
		}
	}
	return float64(bytes) / minutes, writes
}

func always(int) bool { return true }

// flapping is a neighbor that is Established for five seconds and down for the next five seconds.
func flapping(second int) bool { return second/5%2 == 0 }

func TestAnIdleNodeWritesASmallStatusOnceAMinute(t *testing.T) {
	bytes, writes := stored(t, "idle", always)
	if bytes > mostIdleBytes || writes != 10 {
		t.Errorf("the status costs %.0f bytes a minute, want at most %d; %d writes in ten minutes, want 10", bytes, mostIdleBytes, writes)
	}
}

func TestAFlappingNeighborCostsFewWrites(t *testing.T) {
	if bytes, writes := stored(t, "flapping", flapping); bytes > mostFlappingBytes || writes < 20 {
		t.Errorf("the status costs %.0f bytes a minute, want at most %d; %d writes in ten minutes, want at least 20", bytes, mostFlappingBytes, writes)
	}
}

// BenchmarkStatus measures what the BGPNodeStatus of a node with 500 addresses costs the API
// server, with one write for each simulated heartbeat or change.
func BenchmarkStatus(b *testing.B) {
	for b.Loop() {
		for _, m := range []struct {
			name, node string
			up         func(int) bool
			most       float64
		}{
			{"bgp_status_bytes_per_node_minute_idle", "idle-measured", always, mostIdleBytes},
			{"bgp_status_bytes_per_node_minute_flapping", "flapping-measured", flapping, mostFlappingBytes},
		} {
			bytes, _ := stored(b, m.node, m.up)
			fmt.Printf("RESULT %s %.0f bytes\n", m.name, bytes)
			if b.ReportMetric(bytes, m.name); bytes > m.most {
				b.Errorf("%s is %.0f, want at most %.0f", m.name, bytes, m.most)
			}
		}
	}
}
