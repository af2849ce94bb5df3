package peering_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// neighbor returns a neighbor that has been in a state for a minute.
func neighbor(address, state string) peering.NeighborStatus {
	n := peering.NeighborStatus{
		Address: netip.MustParseAddr(address), State: state, PeerASN: 64513, LocalASN: 64512, Since: noon.Add(-time.Minute),
		Sent: map[addr.Family]uint32{addr.V4: 2, addr.V6: 1}, Received: map[addr.Family]uint32{addr.V4: 5},
	}
	if state == peering.Established {
		n.UpSince = n.Since
	}
	return n
}

// report returns the report of a node with this configuration. The node announces all imported
// routes.
func report(t testing.TB, text string, neighbors ...peering.NeighborStatus) peering.Report {
	t.Helper()
	return peering.Report{Node: "node-a", Now: noon, Decision: decide(t, text), Neighbors: neighbors}
}

// healthy prints the conditions and the neighbors of s.
func healthy(s bgpv1.BGPNodeStatusStatus) string {
	var b strings.Builder
	fmt.Fprintf(&b, "healthy %v, %d neighbors\n", s.Healthy, s.NeighborCount)
	for _, n := range s.Neighbors {
		fmt.Fprintf(&b, "%s as %d %s sent %d received %d%s%s\n", n.Address, n.PeerASN, n.State, n.PrefixesSent, n.PrefixesReceived,
			when(n.BFD != "", " bfd "+n.BFD), when(n.LastError != "", ": "+n.LastError))
	}
	for _, c := range s.Conditions {
		fmt.Fprintf(&b, "%s %s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
	}
	return b.String()
}

const two = "{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}}, {config: {neighborAddress: 192.0.2.2, peerAsn: 64513, description: second}}]}"

// large returns a report with more entries of each kind than fit.
func large(t testing.TB) peering.Report {
	r := report(t, `{netlinkImport: {enabled: true, interfaceList: [kube-lb0, 'x*']},
		netlinkExport: {enabled: true, routeProtocol: 99, rules: [{name: all, tableId: 7, metric: 5}]}}`)
	r.Interfaces = []peering.Interface{{Name: "kube-lb0", Exists: true, Up: true}, {Name: "x*"}}
	for i := 1; i <= 600; i++ {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)
		r.Imported = append(r.Imported, peering.Imported{Address: p, Interface: "kube-lb0"})
		route := peering.Route{Prefix: p, Attributes: peering.Attributes{Communities: []uint32{64512<<16 | 7}, LargeCommunities: []string{"1:2:3"}}}
		r.Local = append(r.Local, route)
		r.Learned = append(r.Learned, peering.LearnedRoute{
			Prefix: netip.PrefixFrom(p.Addr(), 32), NextHop: netip.MustParseAddr("192.0.2.2"), From: netip.MustParseAddr("192.0.2.1"), Communities: []uint32{1},
		})
		r.Exported = append(r.Exported, peering.Exported{Prefix: p, Table: 7, Metric: 5, Installed: true})
	}
	r.Learned = append(r.Learned, peering.LearnedRoute{Prefix: netip.MustParsePrefix("::/0"), NextHop: netip.IPv6LinkLocalAllNodes()})
	r.Exported = append(r.Exported, peering.Exported{Prefix: netip.MustParsePrefix("::/0"), Installed: true})
	return r
}

func TestLongListsAreTruncated(t *testing.T) {
	s := peering.NodeStatus(large(t), bgpv1.BGPNodeStatusStatus{})
	got := fmt.Sprint(len(s.RIB.LocalRoutes), s.RIB.LocalRouteCount, len(s.RIB.ReceivedRoutes), s.RIB.ReceivedRouteCount, s.RIB.Truncated,
		len(s.NetlinkImport.ImportedAddresses), s.NetlinkImport.TotalImported, s.NetlinkImport.Truncated,
		len(s.NetlinkExport.ExportedRoutes), s.NetlinkExport.TotalExported, s.NetlinkExport.Truncated)
	if want := "5 600 5 601 true 5 600 true 5 601 true"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	first := fmt.Sprint(s.RIB.LocalRoutes[0], s.RIB.ReceivedRoutes[0], s.NetlinkImport.ImportedAddresses[0], s.NetlinkImport.Interfaces,
		s.NetlinkExport.ExportedRoutes[:2], s.NetlinkExport.Rules, s.NetlinkExport.Protocol)
	want := "{10.0.0.1/32 0.0.0.0  [] 0 [64512:7 1:2:3]} {10.0.0.1/32 192.0.2.2 192.0.2.1 [] 0 [0:1]} {10.0.0.1/32 kube-lb0 true} " +
		"[{kube-lb0 true up} {x* false down}] [{::/0 main 0 true } {10.0.0.1/32 7 5 true }] [{all 5 7}] 99"
	if first != want {
		t.Errorf("\n got %s\nwant %s", first, want)
	}
}

func TestFailuresAreListedFirst(t *testing.T) {
	r := large(t)
	bad := netip.MustParsePrefix("10.0.2.88/32")
	r.Local = slices.DeleteFunc(r.Local, func(l peering.Route) bool { return l.Prefix == bad })
	for i := range r.Exported {
		r.Exported[i].Installed = r.Exported[i].Prefix != bad
	}
	s := peering.NodeStatus(r, bgpv1.BGPNodeStatusStatus{})
	if got := s.NetlinkImport.ImportedAddresses[0]; got.Address != bad.String() || got.InRIB {
		t.Errorf("the first imported address is %+v, want the one that is not announced: %v", got, bad)
	}
	if got := s.NetlinkExport.ExportedRoutes[0]; got.Prefix != bad.String() || got.Installed {
		t.Errorf("the first exported route is %+v, want the one that is not in its table: %v", got, bad)
	}
}

func TestRangesCoverAllRoutesOrAreAbsent(t *testing.T) {
	r := large(t)
	r.Local = append(r.Local, peering.Route{Prefix: netip.MustParsePrefix("192.0.2.128/25")}, peering.Route{Prefix: netip.MustParsePrefix("2001:db8::1/128")})
	if got, want := fmt.Sprint(peering.NodeStatus(r, bgpv1.BGPNodeStatusStatus{}).RIB.LocalRanges),
		"[10.0.0.1-10.0.2.88 192.0.2.128-192.0.2.255 2001:db8::1-2001:db8::1]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r.Local = slices.DeleteFunc(r.Local, func(l peering.Route) bool { return l.Prefix.Addr().AsSlice()[3]%4 == 0 })
	if got := peering.NodeStatus(r, bgpv1.BGPNodeStatusStatus{}).RIB.LocalRanges; got != nil {
		t.Errorf("too many routes give %d ranges, want none", len(got))
	}
}

func TestConditionTimesChangeWithTheStatus(t *testing.T) {
	up, down := neighbor("192.0.2.1", peering.Established), neighbor("192.0.2.1", peering.Active)
	const one = "{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}}]}"
	since := func(s bgpv1.BGPNodeStatusStatus) string {
		text := ""
		for _, c := range s.Conditions {
			text += fmt.Sprintf("%s %s %s ", c.Type, c.Status, c.LastTransitionTime.Sub(noon))
		}
		return text
	}
	var s bgpv1.BGPNodeStatusStatus
	for i, step := range []struct {
		neighbor peering.NeighborStatus
		want     string
	}{
		{up, "Ready True 0s Configured True 0s RouterIDResolved True 0s "},
		{up, "Ready True 0s Configured True 0s RouterIDResolved True 0s "},
		{down, "Ready False 20s Configured True 0s RouterIDResolved True 0s "},
		{down, "Ready False 20s Configured True 0s RouterIDResolved True 0s "},
		{up, "Ready True 40s Configured True 0s RouterIDResolved True 0s "},
	} {
		r := report(t, one, step.neighbor)
		r.Now = noon.Add(time.Duration(i) * 10 * time.Second)
		s = peering.NodeStatus(r, s)
		if got := since(s); got != step.want {
			t.Errorf("step %d: got %s, want %s", i, got, step.want)
		}
	}
}

// TestWhichChangesMakeTheStatusDiffer compares with a new status, and with one that was read from
// the API server.
func TestWhichChangesMakeTheStatusDiffer(t *testing.T) {
	base := func(t *testing.T) peering.Report {
		r := large(t)
		r.Decision = decide(t, two)
		r.Neighbors = []peering.NeighborStatus{neighbor("192.0.2.1", peering.Established), neighbor("192.0.2.2", peering.Active)}
		return r
	}
	tests := []struct {
		name   string
		change func(*peering.Report)
		want   bool
	}{
		{"no change", func(*peering.Report) {}, false},
		{"time passes", func(r *peering.Report) { r.Now = r.Now.Add(time.Minute) }, false},
		{"more is received", func(r *peering.Report) { r.Neighbors[0].Received[addr.V4]++ }, false},
		{"more is learned than is shown", func(r *peering.Report) {
			r.Learned = append(r.Learned, peering.LearnedRoute{Prefix: netip.MustParsePrefix("203.0.113.0/24")})
		}, false},
		{"nothing is received", func(r *peering.Report) { r.Neighbors[0].Received = nil }, true},
		{"more is sent", func(r *peering.Report) { r.Neighbors[0].Sent[addr.V4]++ }, true},
		{"a session begins anew", func(r *peering.Report) { r.Neighbors[0].UpSince = noon }, true},
		{"a session ends", func(r *peering.Report) { r.Neighbors[0].State = peering.Idle }, true},
		{"another error", func(r *peering.Report) { r.Neighbors[1].LastError = "refused" }, true},
		{"one route less", func(r *peering.Report) { r.Local = r.Local[1:] }, true},
		{"a route is not in the kernel", func(r *peering.Report) { r.Exported[3].Installed = false }, true},
		{"an interface goes down", func(r *peering.Report) { r.Interfaces[0].Up = false }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := peering.NodeStatus(base(t), bgpv1.BGPNodeStatusStatus{})
			text, err := json.Marshal(before)
			expect.NoError(t, err)
			var read bgpv1.BGPNodeStatusStatus
			expect.NoError(t, json.Unmarshal(text, &read))
			r := base(t)
			tt.change(&r)
			after := peering.NodeStatus(r, read)
			if peering.Differs(before, after) != tt.want || peering.Differs(read, after) != tt.want {
				t.Errorf("the status differs: %v, and from the read one: %v; want %v", peering.Differs(before, after), peering.Differs(read, after), tt.want)
			}
		})
	}
}

// TestAllNodesGiveTheSameCommonStatus has nodes with problems of their own.
func TestAllNodesGiveTheSameCommonStatus(t *testing.T) {
	spec := config(t, `{global: {asn: 64512, routerID: '${NODE_IP}'}, neighbors: [{config: {neighborAddress: 198.51.100.1, peerAsn: 64513}, nodeSelector: {matchLabels: {rack: '1'}}},
		{config: {neighborAddress: 192.0.2.1, peerAsn: 64513, vrf: red}, nodeSelector: {matchLabels: {rack: '2'}}}]}`)
	here := peering.Decide(spec, node, secrets, egress)
	there := peering.Decide(spec, peering.Node{Name: "node-z"}, secrets, func(netip.Addr) (peering.Egress, bool) { return peering.Egress{}, false })
	a := peering.ConfigurationStatus(7, here, bgpv1.BGPConfigurationStatus{}, noon)
	b := peering.ConfigurationStatus(7, there, bgpv1.BGPConfigurationStatus{}, noon)
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("the result differs (-want +got):\n%s", diff)
	}
	got := fmt.Sprint(a.ObservedGeneration, a.NeighborCount)
	for _, c := range a.Conditions {
		got += fmt.Sprintf("\n%s %s %s %d: %s", c.Type, c.Status, c.Reason, c.ObservedGeneration, c.Message)
	}
	want := `7 2
		Ready False ConfigurationInvalid 7: spec.neighbors[1].config.vrf: VRFs are not supported, so the neighbor is left out: remove vrf, and it gets the routes that all neighbors get
		RouterIDResolved True Resolved 7: each node finds its own; see its BGPNodeStatus`
	if diff := cmp.Diff(trimmed(want), trimmed(got)); diff != "" {
		t.Errorf("the result differs (-want +got):\n%s", diff)
	}
}

func TestTheCommonStatusChangesOnlyWithNews(t *testing.T) {
	good, bad := decide(t, "{neighbors: []}"), decide(t, "{global: {asn: 64512, routerID: here}}")
	at := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }
	first := peering.ConfigurationStatus(1, good, bgpv1.BGPConfigurationStatus{}, at(0))
	same := peering.ConfigurationStatus(1, good, first, at(1))
	if diff := cmp.Diff(first, same); diff != "" {
		t.Errorf("the status changes without news: %s", diff)
	}
	broken := peering.ConfigurationStatus(2, bad, same, at(2))
	times := func(s bgpv1.BGPConfigurationStatus) string {
		text := s.LastReconcileTime.Sub(noon).String()
		for _, c := range s.Conditions {
			text += fmt.Sprint(" ", c.Status, " ", c.LastTransitionTime.Sub(noon))
		}
		return text
	}
	if got, want := times(broken), "2m0s False 2m0s False 2m0s"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if broken.Conditions[1].Reason != "ResolutionFailed" || broken.Message != broken.Conditions[0].Message {
		t.Errorf("%+v", broken)
	}
	edited := peering.ConfigurationStatus(3, bad, broken, at(3))
	if got, want := times(edited), "3m0s False 2m0s False 2m0s"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestALongListOfProblemsIsCut checks the limit of 32768 bytes for the message of a condition.
func TestALongListOfProblemsIsCut(t *testing.T) {
	var many []string
	for i := range 300 {
		many = append(many, fmt.Sprintf("{config: {neighborAddress: 'router-%d-%s', peerAsn: 1}}", i, strings.Repeat("x", 300)))
	}
	s := peering.NodeStatus(report(t, "{neighbors: ["+strings.Join(many, ", ")+"]}"), bgpv1.BGPNodeStatusStatus{})
	for _, c := range s.Conditions {
		if len(c.Message) > 32768 || c.Status == metav1.ConditionFalse && !strings.Contains(c.Message, "; and 280 more") {
			t.Errorf("%s has %d bytes: %s", c.Type, len(c.Message), c.Message)
		}
	}
}
