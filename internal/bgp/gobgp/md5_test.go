package gobgp

import (
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/bgptest"
)

// TestNoNeighborWithAPasswordThatTheKernelRefuses depends on a log message of GoBGP:
// GoBGP reports only there that the kernel refuses a key. A change of that message would
// allow sessions without MD5.
func TestNoNeighborWithAPasswordThatTheKernelRefuses(t *testing.T) {
	// The kernel has no interface of this name, so it refuses the key.
	const gone = "gone0"
	p := peer("192.0.2.2")
	p.Device, p.Password, p.Passive = gone, "secret", true
	dynamic := callers()
	dynamic.Groups[0].Device, dynamic.Groups[0].Password = gone, "secret"
	for name, wanted := range map[string]peering.State{"a neighbor": state(p), "a dynamic neighbor": dynamic} {
		t.Run(name, func(t *testing.T) {
			newWorld(t)
			s := newServer(t)
			problems := tryApply(t, s, wanted)
			if len(problems) != 1 || !strings.Contains(problems[0].Message, "the kernel does not take the password: ") {
				t.Errorf("the problems are %v, want one about the password", problems)
			}
			if there := neighbors(t, s); len(there) > 0 || len(s.found.dynamic) > 0 {
				t.Errorf("sessions are possible without the password: %v, %v", there, s.found.dynamic)
			}
		})
	}
}

// TestAPassiveNeighborNeedsThePasswordOfTheNetworkAroundIt proves what peering reports about neighbors
// without a password inside a network that has one: the kernel drops their packets.
func TestAPassiveNeighborNeedsThePasswordOfTheNetworkAroundIt(t *testing.T) {
	signed := peering.Group{Name: "signed", Options: options(), Path: "spec.peerGroups[0]"}
	signed.Password = "secret"
	open := peering.Group{Name: "open", Options: options(), Path: "spec.peerGroups[1]"}
	around := peering.Dynamic{Prefix: netip.MustParsePrefix("192.0.2.0/24"), Group: "signed", Path: "spec.dynamicNeighbors[0]"}
	p := peer("192.0.2.2")
	p.Passive = true
	named, dynamic := state(p), state()
	named.Groups, named.Dynamic = []peering.Group{signed}, []peering.Dynamic{around}
	dynamic.Groups = []peering.Group{signed, open}
	dynamic.Dynamic = []peering.Dynamic{around, {Prefix: netip.MustParsePrefix("192.0.2.0/25"), Group: "open", Path: "spec.dynamicNeighbors[1]"}}
	for name, wanted := range map[string]peering.State{"a neighbor": named, "a dynamic neighbor": dynamic} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			frr := w.frr("192.0.2.1")
			s := announcing(t, "198.51.100.1/32")
			apply(t, s, wanted)
			counts(t, "TCPMD5NotFound", 3) // the kernel drops the packets of the router
			frr.Await()
			if len(wanted.Peers) == 0 {
				return
			}
			// Not passive, the node connects to the router.
			active := wanted
			active.Peers = slices.Clone(wanted.Peers)
			active.Peers[0].Passive = false
			apply(t, s, active)
			frr.Await("198.51.100.1/32 via 192.0.2.1")
		})
	}
}

// counts waits until a counter of TCP in this namespace has grown by n.
func counts(t *testing.T, name string, n int) {
	t.Helper()
	before := counter(t, name)
	if !bgptest.Eventually(func() bool { return counter(t, name) >= before+n }) {
		t.Fatalf("%s does not grow from %d by %d", name, before, n)
	}
}

func counter(t *testing.T, name string) int {
	t.Helper()
	for _, file := range []string{"/proc/net/netstat", "/proc/net/snmp"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for pair := range slices.Chunk(strings.Split(string(text), "\n"), 2) {
			if at := slices.Index(strings.Fields(pair[0]), name); at > 0 {
				n, err := strconv.Atoi(strings.Fields(pair[1])[at])
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
		}
	}
	t.Fatalf("the kernel has no counter %s", name)
	return 0
}
