package announce_test

import (
	"fmt"
	"net/netip"
	"testing"

	"purelb.io/purelb/internal/announce"
)

func TestDecoysAreAddressesThatNoMachineHas(t *testing.T) {
	s := situation(serve("10.0.0.200", "fd00::50"), owned("node-b", "10.0.0.201"))
	s.Config.Groups.Usable = s.Config.Groups.Usable[:1] // the lower half of the network
	s.Node.Gateways = addrs("10.0.0.254")
	networks := prefixes("192.168.1.1/24", "10.0.0.1/24", "fd00::a/64")
	for i := range 200 {
		s.Self = fmt.Sprintf("node-%d", i)
		four, six := s.Decoys(addrs("10.0.0.5")[0], sources(networks...)), s.Decoys(addrs("fd00::50")[0], sources(networks...))
		if len(four) != 3 || len(six) != 3 {
			t.Fatalf("%v and %v, want three of each", four, six)
		}
		for _, ip := range append(four, six...) {
			_, _, pooled := s.Config.Groups.GroupOf(ip)
			known := map[string]bool{"10.0.0.200": true, "10.0.0.201": true, "10.0.0.254": true, "10.0.0.255": true}
			if pooled || known[ip.String()] || !networks[1].Contains(ip) && !networks[2].Contains(ip) {
				t.Fatalf("%s is no decoy", ip)
			}
		}
	}
	s = situation()
	if got := s.Decoys(addrs("10.0.0.5")[0], sources(networks...)); len(got) != 3 {
		t.Errorf("in a network of pools: %v, want three", got)
	}
	for _, network := range []string{"10.0.0.8/30", "10.0.0.8/31", "172.16.0.0/24"} {
		if got := s.Decoys(addrs("10.0.0.9")[0], sources(prefixes(network)...)); got != nil {
			t.Errorf("in %s: %v, want none", network, got)
		}
	}
}

func TestAProxyIsAMachineThatAnswersForAllDecoys(t *testing.T) {
	proxy, host, both := mac(0xa), mac(0xb), addrs("10.0.0.201", "10.0.0.202")
	all := announce.Answers{both[0]: {host, proxy}, both[1]: {proxy}, addrs("10.0.0.5")[0]: {proxy, host}, addrs("10.0.0.6")[0]: {proxy}}
	equal(t, all.Proxies(both), [][6]byte{proxy})
	equal(t, len(all.Proxies(nil)), 0)
	equal(t, len(all.Proxies(addrs("10.0.0.201", "10.0.0.203"))), 0)
	equal(t, all.Without([]netip.Addr{addrs("10.0.0.5")[0], addrs("10.0.0.6")[0]}, [][6]byte{proxy}), announce.Answers{addrs("10.0.0.5")[0]: {host}})
}
