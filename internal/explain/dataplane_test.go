package explain

import (
	"fmt"
	"testing"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/addr"
)

// The status of a speaker lists only some of its routes, and not the neighbors that receive them.
func TestTheDataplaneOfANodeWithManyRoutes(t *testing.T) {
	n := bgpv1.BGPNodeStatusStatus{NodeName: "n1", RIB: &bgpv1.NodeRIB{
		LocalRoutes: []bgpv1.RIBRoute{{Prefix: "203.0.113.0/32", NextHop: "0.0.0.0"}}, LocalRouteCount: 9,
		LocalRanges: []string{"203.0.113.0-203.0.113.8"}, Truncated: true,
	}}
	if all, complete := announcedBy(*n.RIB); fmt.Sprint(all, complete) != "[203.0.113.0-203.0.113.8] true" {
		t.Errorf("the node announces %v (complete: %v)", all, complete)
	}
	none := *n.RIB
	none.LocalRanges = nil
	if _, complete := announcedBy(none); complete {
		t.Error("a partial list of routes counts as complete")
	}
	problems := func() string {
		d := Dataplane{}
		d.addRoutes(&view{}, n)
		return fmt.Sprint(d.RIBRoutes[0].AdvertisedTo, " ", d.Problems)
	}
	if got, want := problems(), "[] [node n1: 203.0.113.0/32 is announced to no neighbor]"; got != want {
		t.Errorf("without neighbors: got %s, want %s", got, want)
	}
	n.Neighbors = []bgpv1.NodeNeighbor{
		{Address: "192.0.2.1", State: established, PrefixesSent: 9},
		{Address: "192.0.2.2", State: established, PrefixesSent: 8},
		{Address: "192.0.2.3", State: "Active", PrefixesSent: 9},
	}
	if got, want := problems(), "[192.0.2.1] []"; got != want {
		t.Errorf("with neighbors: got %s, want %s", got, want)
	}
}

func TestARouterThatTakesOneFamilyReceivesNoOther(t *testing.T) {
	of := func(families ...bgpv1.NeighborFamily) bgpv1.NodeNeighbor {
		return bgpv1.NodeNeighbor{State: established, PrefixesSent: 3, Families: families}
	}
	four, six := bgpv1.NeighborFamily{Family: "ipv4-unicast", PrefixesSent: 3}, bgpv1.NeighborFamily{Family: "ipv6-unicast"}
	for _, tt := range []struct {
		neighbor bgpv1.NodeNeighbor
		want     string
	}{
		{of(four), "true false"},
		{of(four, six), "true false"},
		{of(), "true true"}, // an older speaker
		{bgpv1.NodeNeighbor{State: "Active", PrefixesSent: 3}, "false false"},
	} {
		if got := fmt.Sprint(receives(tt.neighbor, addr.V4), " ", receives(tt.neighbor, addr.V6)); got != tt.want {
			t.Errorf("%+v receives IPv4 and IPv6: %s, want %s", tt.neighbor, got, tt.want)
		}
	}
}
