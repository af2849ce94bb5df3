package joined_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/nodes/ending"
	"purelb.io/purelb/internal/testing/bgptest"
)

// Another program on the node has a session with the router. The speaker leaves the neighbor alone, and
// takes it over when the session ends. The router sees no event of the other program's route meanwhile.
func TestASessionOfAnotherProgramIsLeftAlone(t *testing.T) {
	const foreign = "198.51.100.1/32 via 192.0.2.1"
	bird := func(restart string) func() *bgptest.Router {
		return func() *bgptest.Router {
			return bgptest.BIRD(t, bgptest.Here(t), fmt.Sprintf(`
router id 192.0.2.1;
protocol static { ipv4; route 198.51.100.1/32 blackhole; }
protocol bgp { local 192.0.2.1 port 1179 as 65000; neighbor 192.0.2.2 port 179 as 64514; connect retry time 1; connect delay time 1; error wait time 1, 2;
 graceful restart %s; ipv4 { import none; export where source = RTS_STATIC; }; }
`, restart))
		}
	}
	frr := func(restart string) func() *bgptest.Router {
		return func() *bgptest.Router {
			return bgptest.FRR(t, bgptest.Here(t), fmt.Sprintf(`
router bgp 65000
 bgp router-id 192.0.2.1
 no bgp ebgp-requires-policy
 no bgp network import-check
 bgp graceful-restart preserve-fw-state
 neighbor 192.0.2.2 remote-as 64514
 neighbor 192.0.2.2 timers connect 1
 neighbor 192.0.2.2 graceful-restart%s
 address-family ipv4 unicast
  network 198.51.100.1/32
 exit-address-family
`, restart))
		}
	}
	for _, tt := range []struct {
		name  string
		other func() *bgptest.Router
	}{
		{"BIRD with graceful restart", bird("on")},
		{"BIRD without graceful restart", bird("off")},
		{"FRR with graceful restart", frr("")},
		{"FRR without graceful restart", frr("-disable")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wire, here, there := bgptest.NewSegment(t), bgptest.Here(t), bgptest.NewNamespace(t)
			wire.Join(here, "eth0", "192.0.2.1/24")
			wire.Join(there, "eth0", "192.0.2.2/24")
			here.IP("link add kube-lb0 type ifb\nlink set kube-lb0 up\naddr add 203.0.113.7/32 dev kube-lb0")
			t.Cleanup(func() { here.IP("link del kube-lb0") })
			router := bgptest.FRR(t, there, `
router bgp 64514
 bgp router-id 192.0.2.2
 no bgp ebgp-requires-policy
 neighbor 192.0.2.1 remote-as 65000
 neighbor 192.0.2.1 timers connect 1
`)
			other := tt.other()
			router.Await(foreign)
			c := &cluster{changed: make(chan struct{}, 1), snapshot: snapshot(t, `{global: {asn: 65000, gracefulRestart: {enabled: true}}, neighbors: [{config: {neighborAddress: 192.0.2.2, peerAsn: 64514}}]}`)}
			r := &reports{}
			monitor := there.Monitor()
			speak(t, logTo(t), c, r, router, ending.Restart)
			bgptest.Await(t, "the status", "healthy false, 192.0.2.2 Idle bfd  sent 0", r.neighbors)
			time.Sleep(3 * time.Second) // time for an attempt to connect
			monitor.Quiet(t)
			r.mu.Lock()
			said := fmt.Sprint(r.last.Conditions, r.last.Neighbors)
			r.mu.Unlock()
			if strings.Count(said, "another program on this node has a BGP session with 192.0.2.2 (from 192.0.2.1:") != 3 {
				t.Errorf("Ready, Configured and the neighbor do not all name the other session: %s", said)
			}

			other.Kill()
			began := time.Now()
			router.AwaitSays("show bgp ipv4 unicast", "203.0.113.7/32")
			t.Logf("the route was there %v after the end of the other session", time.Since(began).Round(10*time.Millisecond))
			router.AwaitSays("show ip route bgp", "203.0.113.7/32")
		})
	}
}
