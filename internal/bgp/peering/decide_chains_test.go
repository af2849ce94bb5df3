package peering_test

import (
	"net/netip"
	"strings"
	"testing"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

func TestRoutesToTheAddressesOfTheClusterAreNotLearned(t *testing.T) {
	own := node
	own.Own = []peering.PrefixRange{
		{Prefix: netip.MustParsePrefix("10.255.0.0/24"), Min: 24, Max: 32}, {Prefix: netip.MustParsePrefix("2001:db8:f::/64"), Min: 64, Max: 128},
	}
	spec := config(t, `{global: {asn: 64512}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64512}}], netlinkExport: {enabled: true, rules: [{name: all}]}}`)
	got := ""
	for line := range strings.Lines(print(peering.Decide(spec, own, secrets, egress))) {
		if strings.HasPrefix(line, "set prefix") || strings.HasPrefix(line, "import") {
			got += line
		}
	}
	expect.Equal(t, "the sets and the import chain", got, `set prefix purelb:pools IPv4 [][{10.255.0.0/24 24 32}]
set prefix purelb:pools IPv6 [][{2001:db8:f::/64 64 128}]
import [purelb:pools IPv4] prefixes any of purelb:pools IPv4 -> reject
import [purelb:pools IPv6] prefixes any of purelb:pools IPv6 -> reject
`)
}
