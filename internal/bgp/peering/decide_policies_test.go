package peering_test

import (
	"fmt"
	"net/netip"
	"testing"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

func TestRoutesToTheAddressesOfTheClusterAreNotLearned(t *testing.T) {
	own := node
	own.Own = []peering.PrefixRange{
		{Prefix: netip.MustParsePrefix("10.255.0.0/24"), Min: 24, Max: 32}, {Prefix: netip.MustParsePrefix("2001:db8:f::/64"), Min: 64, Max: 128},
	}
	const neighbors = `{global: {asn: 64512}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64512}}]`
	for spec, want := range map[string]string{
		neighbors + `}`: "false []",
		neighbors + `, netlinkExport: {enabled: true, rules: [{name: all}]}}`: "true [{10.255.0.0/24 24 32} {2001:db8:f::/64 64 128}]",
	} {
		s := peering.Decide(config(t, spec), own, secrets, egress).State
		expect.Equal(t, "whether the node learns, and what it does not", fmt.Sprint(s.Learns, s.Own), want)
	}
}
