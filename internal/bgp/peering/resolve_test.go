package peering_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/bgp/peering"
)

func TestAdvertisementsReachUnnumberedNeighborsByTheirAddresses(t *testing.T) {
	here := node
	here.Restricted = []peering.Restriction{{Group: "web", Mark: peering.MarkOf("web"), Advertisements: []peering.Advertisement{one("eth1 eth2 198.51.100.1", med(7))}}}
	d := peering.Decide(config(t, `{neighbors: [{config: {neighborInterface: eth1, peerAsn: 64513}}, {config: {neighborInterface: eth2, peerAsn: 64513}}, {config: {neighborInterface: eth3, peerAsn: 64513}},
		{config: {neighborAddress: 198.51.100.1, peerAsn: 64513}, afiSafis: [{family: ipv4-unicast}]}]}`), here, secrets, egress)
	before := print(d)
	got := func(found map[string]netip.Addr) string {
		r := d
		r.State, _ = d.State.Resolved(found)
		var lines []string
		for line := range strings.Lines(beyond(r)) {
			if strings.HasPrefix(line, "peer") || strings.HasPrefix(line, "set neighbor") {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "")
	}
	const (
		eth1, eth2, eth3 = "peer %eth1 as 64513 from 64512 IPv4 IPv6 90/30/2\n", "peer %eth2 as 64513 from 64512 IPv4 IPv6 90/30/2\n", "peer %eth3 as 64513 from 64512 IPv4 IPv6 90/30/2\n"
		v4               = "peer 198.51.100.1 as 64513 from 64512 IPv4 90/30/2\n"
		set              = "set neighbor purelb:web for %eth1 "
	)
	first, second, third := netip.MustParseAddr("fe80::1%eth1"), netip.MustParseAddr("fe80::2%eth2"), netip.MustParseAddr("fe80::3%eth3")
	for _, tt := range []struct {
		found map[string]netip.Addr
		want  string
	}{
		{nil, v4 + set + "[198.51.100.1/32][]\n"},
		{map[string]netip.Addr{"eth1": first}, eth1 + v4 + set + "[198.51.100.1/32 fe80::1/128][]\n"},
		{map[string]netip.Addr{"eth1": first, "eth2": second, "eth3": third}, eth1 + eth2 + eth3 + v4 + set + "[198.51.100.1/32 fe80::1/128 fe80::2/128][]\n"},
	} {
		if diff := cmp.Diff(tt.want, got(tt.found)); diff != "" {
			t.Errorf("with the addresses %v, the peers and sets differ: %s", tt.found, diff)
		}
	}
	if diff := cmp.Diff(before, print(d)); diff != "" {
		t.Errorf("Resolved has changed the decision itself: %s", diff)
	}
}
