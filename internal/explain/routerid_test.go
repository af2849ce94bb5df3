package explain

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
)

func TestNodesWithTheSameRouterIDAreAProblem(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w := World{Now: now}
	speaker := func(node, id, source string, age time.Duration) {
		at := metav1.NewTime(now.Add(-age))
		w.NodeStatuses = append(w.NodeStatuses, bgpv1.BGPNodeStatus{Status: bgpv1.BGPNodeStatusStatus{
			NodeName: node, RouterID: id, RouterIDSource: source, LastUpdated: &at, HeartbeatSeconds: 60,
		}})
	}
	speaker("n1", "192.0.2.1", peering.RouterIDExplicit, 0)
	speaker("n2", "192.0.2.1", peering.RouterIDExplicit, 0)
	speaker("n3", "192.0.2.3", peering.RouterIDExplicit, 0)
	speaker("n4", "192.0.2.3", peering.RouterIDExplicit, time.Hour) // this speaker has sent no heartbeat for an hour
	speaker("n5", "", "", 0)
	speaker("n6", "", "", 0)
	for node, want := range map[string]string{
		"":   "n1 n2",
		"n2": "n2",
		"n3": "",
	} {
		s, err := SessionsOf(w, node)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range s.Problems {
			if name, ok := strings.CutPrefix(p, "node "); ok && strings.Contains(p, "2 nodes have the router ID 192.0.2.1") && strings.Contains(p, "remove global.routerID") {
				got = append(got, name[:2])
			} else if strings.Contains(p, "have the router ID") {
				t.Errorf("there is an unexpected problem: %s", p)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("explained for %q, the problems are %q, want %q", node, s.Problems, want)
		}
	}
}
