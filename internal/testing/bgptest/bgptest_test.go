package bgptest

import (
	"os"
	"slices"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestFRRAndBIRDLearnFromEachOtherAndTheMonitorSeesIt(t *testing.T) {
	wire := NewSegment(t)
	left, right := NewNamespace(t), NewNamespace(t)
	port := wire.Join(left, "eth0", "192.0.2.1/24", "2001:db8::1/64")
	wire.Join(right, "eth0", "192.0.2.2/24", "2001:db8::2/64")
	frr := FRR(t, left, `
router bgp 64514
 bgp router-id 192.0.2.1
 no bgp ebgp-requires-policy
 no bgp network import-check
 neighbor 192.0.2.2 remote-as 64515
 neighbor 192.0.2.2 timers 1 3
 neighbor 192.0.2.2 timers connect 1
 neighbor 2001:db8::2 remote-as 64515
 neighbor 2001:db8::2 timers connect 1
 address-family ipv4 unicast
  network 198.51.100.0/24
 address-family ipv6 unicast
  network 2001:db8:1::/48
  neighbor 2001:db8::2 activate
`)
	monitor := right.Monitor()
	bird := BIRD(t, right, `
router id 192.0.2.2;
protocol static { ipv4; route 203.0.113.0/24 blackhole; }
template bgp again { connect retry time 1; connect delay time 1; error wait time 1, 2; }
protocol bgp four from again { local 192.0.2.2 as 64515; neighbor 192.0.2.1 as 64514; ipv4 { import all; export where source = RTS_STATIC; }; }
protocol bgp six from again { local 2001:db8::2 as 64515; neighbor 2001:db8::1 as 64514; ipv6 { import all; export none; }; }
`)
	bird.Await("198.51.100.0/24 via 192.0.2.1", "2001:db8:1::/48 via 2001:db8::1")
	frr.Await("203.0.113.0/24 via 192.0.2.2")
	frr.AwaitSays("show bgp summary", "192.0.2.2")
	bird.AwaitSays("show protocols", "Established")

	port.Cut()
	frr.Await()
	port.Mend()
	frr.Await("203.0.113.0/24 via 192.0.2.2")
	for _, want := range []string{"add 198.51.100.0/24 via 192.0.2.1", "add 2001:db8:1::/48 via 2001:db8::1"} {
		if !Eventually(func() bool { return slices.Contains(monitor.Events(t), want) }) {
			t.Errorf("the monitor saw %q, and not %q", monitor.Events(t), want)
		}
	}
}
