package announce

import (
	"fmt"
	"net/netip"
	"testing"
)

func TestQuestionsAreAskedFromTheNodesOwnAddresses(t *testing.T) {
	unusable := func(a *Address) { a.Tentative = true }
	node := theSituation().Node
	node.Addresses = list(hasNode("eth0", "10.0.0.1/24"), hasLocal("eth0", "10.0.0.5/24", lifetime), hasNode("eth1", "10.9.0.1/16"),
		hasNode("eth0", "192.0.2.7/32"), hasNode("eth0", "fe80::a/64"), hasNode("eth0", "fd00::a/64"), hasLocal("eth0", "fd00::50/64", lifetime),
		with(hasNode("eth0", "fd00::b/64"), unusable))
	if got, want := fmt.Sprint(SourcesOn("eth0", node, nil)), "[10.0.0.1/24 fd00::a/64]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	node.MarksSupported = false
	for i := range node.Addresses {
		node.Addresses[i].Mark = 0
	}
	held := func(a Address) bool { return a.NoPrefixRoute }
	if got, want := fmt.Sprint(SourcesOn("eth0", node, held)), "[10.0.0.1/24 fd00::a/64]"; got != want {
		t.Errorf("on a kernel without marks: got %s, want %s", got, want)
	}
}

func TestADeprecatedAddressIsTheLastToAskFrom(t *testing.T) {
	node := Node{MarksSupported: true, Addresses: []Address{
		with(hasNode("eth0", "fd00::b/64"), func(a *Address) { a.Preferred = 0 }), hasNode("eth0", "fd00::a/64"),
	}}
	if got, want := fmt.Sprint(SourcesOn("eth0", node, nil)), "[fd00::a/64 fd00::b/64]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAProbeAsksFromTheNetworkOfTheAddress(t *testing.T) {
	p := Probing{Sources: []netip.Prefix{netip.MustParsePrefix("198.51.100.1/24"), netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("fd00::1/64")}}
	for ip, want := range map[string]string{
		"192.0.2.9": "192.0.2.1", "198.51.100.9": "198.51.100.1", "fd00::9": "fd00::1", "203.0.113.9": "", "192.0.2.1": "",
	} {
		got := ""
		if source, ok := p.SourceFor(netip.MustParseAddr(ip)); ok {
			got = source.String()
		}
		if got != want {
			t.Errorf("%s: asked from %q, want %q", ip, got, want)
		}
	}
}
