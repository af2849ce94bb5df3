package peering_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
)

func TestANeighborWithoutItsBFDIsNotHealthy(t *testing.T) {
	const spec = `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, bfd: {}}, {config: {neighborAddress: 192.0.2.2, peerAsn: 64513}},
		{config: {neighborAddress: 192.0.2.3, peerAsn: 64513, adminDown: true}, bfd: {}}, {config: {neighborAddress: nonsense, peerAsn: 64513}}]}`
	for _, tt := range []struct {
		name, bfd string
		since     time.Duration
		healthy   bool
	}{
		{"BFD is up", "Up", time.Hour, true},
		{"BFD has not started yet", "", 9 * time.Second, true},
		{"the router has no BFD", "Down", 10 * time.Second, false},
		{"there is no BFD session", "", time.Hour, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := report(t, spec)
			r.Neighbors = nil
			for _, address := range []string{"192.0.2.1", "192.0.2.2"} {
				r.Neighbors = append(r.Neighbors, peering.NeighborStatus{
					Address: ips(address)[0], State: peering.Established, UpSince: r.Now.Add(-tt.since), Since: r.Now.Add(-tt.since),
				})
			}
			r.BFD = map[string]string{"192.0.2.1": tt.bfd}
			if got, want := fmt.Sprint(r.Healthy()), fmt.Sprintf("map[192.0.2.1:%v 192.0.2.2:true nonsense:false]", tt.healthy); got != want {
				t.Errorf("the health of the neighbors is %s, want %s", got, want)
			}
			s := peering.NodeStatus(r, bgpv1.BGPNodeStatusStatus{})
			if said := strings.Contains(fmt.Sprint(s.Conditions), "BFD with 192.0.2.1 is "); said == tt.healthy {
				t.Errorf("the conditions report that BFD is missing: %v, want %v\n%v", said, !tt.healthy, s.Conditions)
			}
		})
	}
}

func TestNoNeighborsInTheStatusWithoutAConfiguration(t *testing.T) {
	r := report(t, `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}}, {config: {neighborAddress: nonsense, peerAsn: 64513}}]}`)
	r.Neighbors, r.Unconfigured = nil, true
	if all := r.Healthy(); len(all) > 0 {
		t.Errorf("without a configuration, the neighbors are %v, want none", all)
	}
}
