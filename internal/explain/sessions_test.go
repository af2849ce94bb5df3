package explain

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
)

// A BGPNodeStatus leaves out dynamic neighbors with a session if there are too many.
func TestNeighborsThatAStatusLeavesOutAreCounted(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	w := World{Now: now.Time, NodeStatuses: []bgpv1.BGPNodeStatus{{Status: bgpv1.BGPNodeStatusStatus{
		NodeName: "n1", LastUpdated: &now, HeartbeatSeconds: 60, NeighborCount: 42, Healthy: true,
		Neighbors: []bgpv1.NodeNeighbor{{Address: "192.0.2.1", State: "Active", Dynamic: true}, {Address: "192.0.2.2", State: "Established", Dynamic: true}},
	}}}}
	if n := newView(w).bgpNode(w.NodeStatuses[0].Status); n.Established != 41 || n.Neighbors != 42 {
		t.Errorf("%d of %d neighbors are Established, want 41 of 42", n.Established, n.Neighbors)
	}
	s, err := SessionsOf(w, "")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"node n1: 40 more dynamic neighbors"}; !slices.Equal(s.Omitted, want) {
		t.Errorf("sessions that are not listed: %q, want %q", s.Omitted, want)
	}
	if !slices.ContainsFunc(s.Tables(), func(t Table) bool { return t.Title == "Not listed" }) {
		t.Errorf("no table has them: %+v", s.Tables())
	}
}
