package agent

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/nodes/membership"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/expect"
)

// preferring makes the world's group prefer node-b, and lets addresses go back after a time.
func preferring(w *world, after v2.Duration) {
	g := &w.cluster.snapshot.Groups[0]
	g.Spec.Local.RebalanceAfter = after
	g.Spec.Local.Nodes = []v2.NodeWeight{{NodeSelector: map[string]string{"rack": "b"}, Weight: 5}}
	b := reachable("node-b")
	b.Weights = map[string]int{"local": 5}
	w.peers.peers.Members = append(w.peers.peers.Members, b)
}

// The Service names another node, whose agent does not take the addresses: it is one of an earlier
// version, or its kernel refuses them.
func TestAddressesStayIfTheNamedNodeDoesNotTakeThem(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kernel.hold(ours("eth0", "192.0.2.9/24", 60*time.Second), ours("eth0", "2001:db8::9/64", 60*time.Second))
		w.cluster.snapshot.Services = []corev1.Service{heldBy("node-a")}
		w.peers.peers.Members = append(w.peers.peers.Members, reachable("node-b"))
	}, func(w *world) {
		pass(time.Second)
		expect.Equal(t, "kernel, before", w.kernel.String(), bothAddresses)
		web := heldBy("node-a")
		web.Annotations[service.AnnotationNode] = "node-b"
		web.ResourceVersion = "2"
		w.serve(web)
		for range 300 {
			pass(2 * time.Second)
			if got := w.kernel.String(); got != bothAddresses {
				t.Fatalf("the kernel has %q", got)
			}
		}
	})
}

// The named node cannot add the addresses. After ten minutes it is a candidate again.
func TestAddressesStayIfTheNamedNodeIsUnable(t *testing.T) {
	inWorld(t, func(w *world) {
		web := heldBy("node-a")
		web.Annotations[service.AnnotationNode] = "node-b"
		w.kernel.hold(ours("eth0", "192.0.2.9/24", 60*time.Second), ours("eth0", "2001:db8::9/64", 60*time.Second))
		w.cluster.snapshot.Services = []corev1.Service{web}
		b := reachable("node-b")
		b.Unable = []netip.Addr{addrOf("192.0.2.9"), addrOf("2001:db8::9")}
		w.peers.peers.Members = append(w.peers.peers.Members, b)
	}, func(w *world) {
		pass(time.Minute)
		expect.Equal(t, "kernel, node-b is unable", w.kernel.String(), bothAddresses)
		w.peers.set(func(p *election.Peers) {
			p.Members = slices.Clone(p.Members)
			p.Members[1].Unable = nil
		})
		pass(5 * time.Second)
		expect.Equal(t, "kernel, node-b is a candidate again", w.kernel.String(), bothAddresses)
	})
}

// set changes the peers and wakes the agent.
func (p *fakePeers) set(change func(*election.Peers)) {
	p.mu.Lock()
	change(&p.peers)
	p.mu.Unlock()
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// No node takes the addresses that should go back. They stay, and so does what the Service says of them.
func TestNobodyNoticesThatAddressesDoNotGoBack(t *testing.T) {
	inWorld(t, func(w *world) {
		preferring(w, "1m")
		w.kernel.hold(ours("eth0", "192.0.2.9/24", 60*time.Second), ours("eth0", "2001:db8::9/64", 60*time.Second))
		w.cluster.snapshot.Services = []corev1.Service{heldBy("node-a")}
	}, func(w *world) {
		pass(time.Second)
		w.reported()
		for range 100 {
			pass(2 * time.Second)
			kernel, slots := w.kernel.String(), w.slots("web")
			if kernel != bothAddresses || !strings.Contains(slots, "192.0.2.9") || !strings.Contains(slots, "2001:db8::9") {
				t.Fatalf("the kernel has %q, and the slots say %q", kernel, slots)
			}
		}
		expect.Equal(t, "events", w.reported(), "")
	})
}

// It is the only address, so nothing else makes the agent look again before the address expires.
func TestAnAddressThatDoesNotGoBackIsRefreshed(t *testing.T) {
	inWorld(t, func(w *world) {
		preferring(w, "10m")
		w.kernel.hold(ours("eth0", "192.0.2.9/24", 60*time.Second))
		web := branded("web", "192.0.2.9")
		web.Annotations[service.AnnotationAnnouncingIPv4] = "node-a,eth0,192.0.2.9"
		w.cluster.snapshot.Services = []corev1.Service{web}
	}, func(w *world) {
		for second := range 3600 {
			pass(time.Second)
			if got := w.kernel.String(); got != "192.0.2.9/24 eth0" {
				t.Fatalf("after %d s the kernel has %q", second, got)
			}
		}
	})
}

// A tool removes the annotation that asks for adoption, and kube-vip's address is still there.
func TestAnAdoptedAddressStaysWithoutTheAnnotation(t *testing.T) {
	ip := byHash["node-b"]
	inWorld(t, func(w *world) {
		adopting(w, ip)
	}, func(w *world) {
		pass(10 * time.Second)
		expect.Equal(t, "kernel, adopted", w.kernel.String(), ip+"/24 eth0")
		web := branded("web", ip)
		web.Annotations[service.AnnotationAnnouncingIPv4] = "node-a,eth0," + ip
		web.ResourceVersion = "9"
		w.serve(web)
		pass(10 * time.Second)
		expect.Equal(t, "kernel, without the annotation", w.kernel.String(), ip+"/24 eth0")
	})
}

// adopting makes a Service with the address, which asks for adoption, and puts the address on the node as
// kube-vip does.
func adopting(w *world, ip string) {
	w.kernel.hold(permanent("eth0", ip+"/32"))
	web := branded("web", ip)
	web.Annotations[service.AnnotationAdopt] = "true"
	w.cluster.snapshot.Services = []corev1.Service{web}
	w.peers.peers.Members = append(w.peers.peers.Members, reachable("node-b"))
}

// kube-vip ended without removing its address, which still answers, and the node is to be avoided.
func TestANodeKeepsAnAddressThatItWouldStillAnswerFor(t *testing.T) {
	ip := byHash["node-b"]
	inWorld(t, func(w *world) {
		adopting(w, ip)
		w.peers.answer = func(to string, _ []byte) (membership.Message, bool) {
			return from(to, announce.Taken, addrOf(ip)), true
		}
	}, func(w *world) {
		pass(10 * time.Second)
		w.cluster.change(excluded)
		pass(time.Minute)
		expect.Equal(t, "kernel", w.kernel.String(), ip+"/24 eth0")
	})
}
