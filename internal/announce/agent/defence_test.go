package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/testing/expect"
)

// holdingBoth runs test on a node that has held both addresses for a minute.
func holdingBoth(t *testing.T, garp bool, test func(*world)) {
	inWorld(t, func(w *world) {
		w.kernel.hold(ours("eth0", "192.0.2.9/24", time.Minute), ours("eth0", "2001:db8::9/64", time.Minute))
		w.cluster.snapshot.Services = []corev1.Service{heldBy("node-a")}
		w.cluster.snapshot.Agents = []v2.LBNodeAgent{lbNodeAgent("default", v2.InterfaceSpec{GARPConfig: &v2.GARPConfig{Enabled: &garp}})}
	}, func(w *world) {
		pass(time.Minute)
		w.kernel.changes()
		test(w)
	})
}

func heard(ip string, mac byte) announce.Heard {
	return announce.Heard{Link: "eth0", Addr: addrOf(ip), MAC: [6]byte{2, 0, 0, 0, 0, mac}, At: time.Now()}
}

func TestAForeignClaimIsReportedOnceAndAnsweredRarely(t *testing.T) {
	holdingBoth(t, true, func(w *world) {
		for range 100 {
			w.kernel.heard <- heard("192.0.2.9", 7)
			w.kernel.heard <- heard("2001:db8::9", 7)
			pass(time.Second / 10)
		}
		settle()
		claims := strings.Join(w.kernel.claims(), "\n")
		if v4, v6 := strings.Count(claims, "192.0.2.9"), strings.Count(claims, "2001:db8::9"); v4 != 1 || v6 != 1 {
			t.Errorf("within ten seconds the agent defends with\n%s\nwant one claim for each address", claims)
		}
		tail := ", which node node-a has on eth0, is claimed by another machine, 02:00:00:00:00:07: clients reach one or the other; " +
			"if this is no node of the cluster, give it another address, or exclude this one from the pool"
		expect.Equal(t, "events", w.reported(), "Warning AddressConflict 192.0.2.9"+tail+"\nWarning AddressConflict 2001:db8::9"+tail)
		expect.Equal(t, "kernel", w.kernel.String(), bothAddresses)
		expect.Contains(t, "the published record", w.peers.publications(), "192.0.2.9 on eth0 is claimed by another machine, 02:00:00:00:00:07")
		w.kernel.heard <- heard("192.0.2.9", 7)
		pass(10 * time.Second)
		w.kernel.heard <- heard("192.0.2.9", 7)
		settle()
		if claims := w.kernel.claims(); len(claims) != 4 {
			t.Errorf("ten seconds later, all claims are %v", claims)
		}
		expect.Equal(t, "events, within ten minutes", w.reported(), "")
		w.kernel.heard <- heard("192.0.2.9", 8)
		settle()
		if events := w.reported(); strings.Count(events, "\n") != 0 || !strings.Contains(events, "00:08") {
			t.Errorf("the events of a second machine are %q, want one with its MAC", events)
		}
		expect.Equal(t, "conflicts that the metric counts", testutil.ToFloat64(w.metrics.conflicts), 3)
		pass(12 * time.Minute)
		expect.Equal(t, "published record after the conflict", w.peers.publications(), "[192.0.2.0/24 2001:db8::/64] purelb/default ")
		w.reported()
		w.kernel.heard <- heard("192.0.2.9", 7)
		settle()
		expect.Contains(t, "the events of a new conflict", w.reported(), "00:07")
	})
}

func TestAnARPRequestIsNoConflict(t *testing.T) {
	holdingBoth(t, true, func(w *world) {
		probe := heard("192.0.2.9", 7)
		probe.Probe = true
		elsewhere := heard("192.0.2.9", 7)
		elsewhere.Link = "eth1"
		for _, h := range []announce.Heard{probe, elsewhere, heard("192.0.2.10", 7)} {
			w.kernel.heard <- h
		}
		settle()
		expect.Equal(t, "changes", w.kernel.changes(), "")
		expect.Equal(t, "events", w.reported(), "")
	})
}

// unwritten is an Annotations that drops all writes.
type unwritten struct{}

func (unwritten) Want(map[string]Write) {}

func TestTheNodeThatIsNotElectedYieldsASharedAddress(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, ip := range []string{"192.0.2.9", "192.0.2.10", "192.0.2.11", "192.0.2.12"} {
			w.kernel.hold(ours("eth0", ip+"/24", time.Minute))
			w.cluster.snapshot.Services = append(w.cluster.snapshot.Services, branded("s"+ip, ip))
		}
		w.peers.peers.Members = append(w.peers.peers.Members, peer("node-b"))
		w.agent.Annotations = unwritten{}
	}, func(w *world) {
		pass(10 * time.Second)
		expect.Equal(t, "kernel, while no other node claims them", w.kernel.String(), "192.0.2.10/24 eth0, 192.0.2.11/24 eth0, 192.0.2.12/24 eth0, 192.0.2.9/24 eth0")
		var chosen []string
		for _, ip := range []string{"192.0.2.10", "192.0.2.11", "192.0.2.12", "192.0.2.9"} {
			w.kernel.heard <- heard(ip, 7)
			if election.Winner(addrOf(ip), []string{"node-a", "node-b"}) == "node-a" {
				chosen = append(chosen, ip+"/24 eth0")
			}
		}
		if len(chosen) == 0 || len(chosen) == 4 {
			t.Fatalf("the test needs other addresses: node-a is elected for %v, want some of them", chosen)
		}
		settle()
		expect.Equal(t, "kernel", w.kernel.String(), strings.Join(chosen, ", "))
	})
}

// A node that hands over an address still answers for it for a moment.
func TestAHandoverDuringASlowPassIsNoConflict(t *testing.T) {
	web := serving(branded("web", "192.0.2.9"))
	t.Run("the next pass is slow", func(t *testing.T) {
		inWorld(t, nil, func(w *world) {
			w.cluster.change(web)
			pass(500 * time.Millisecond)
			expect.Equal(t, "kernel", w.kernel.String(), "192.0.2.9/24 eth0")
			unstick := w.kernel.stick()
			backoff.Poke(w.kernel.changed)
			pass(500 * time.Millisecond)
			claim := heard("192.0.2.9", 7)
			pass(5 * time.Second)
			unstick()
			w.kernel.heard <- claim
			settle()
			expect.Equal(t, "events", w.reported(), "Normal AnnouncingLocal Node node-a announcing 192.0.2.9 on interface eth0")
			pass(5 * time.Second)
			w.kernel.heard <- heard("192.0.2.9", 7)
			settle()
			expect.Contains(t, "the events when the machine claims the address again", w.reported(), "AddressConflict")
		})
	})
	t.Run("the address is added late in the pass", func(t *testing.T) {
		inWorld(t, func(w *world) { w.kernel.putting = 3 * time.Second }, func(w *world) {
			w.cluster.change(web)
			pass(3500 * time.Millisecond)
			expect.Equal(t, "kernel", w.kernel.String(), "192.0.2.9/24 eth0")
			w.kernel.heard <- heard("192.0.2.9", 7)
			settle()
			lacks(t, "the events", w.reported(), "AddressConflict")
		})
	})
}
