package agent

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/expect"
)

// serverMAC is the Ethernet address of node-b, where another load balancer answers.
var serverMAC = [6]byte{2, 0, 0, 0, 0, 0xb}

// byHash returns an address that node has by hash if node-a and node-b can have it.
var byHash = map[string]string{"node-a": "192.0.2.9", "node-b": "192.0.2.10"}

func TestTheNodeThatServesAnAddressIsAskedToTakeIt(t *testing.T) {
	ip := byHash["node-a"]
	inWorld(t, func(w *world) {
		w.cluster.snapshot.Services = []corev1.Service{branded("web", ip)}
		w.peers.peers.Members = append(w.peers.peers.Members, reachable("node-b"))
		w.peers.peers.MACs = map[[6]byte]string{serverMAC: "node-b"}
		w.kernel.answers[ip] = serverMAC
	}, func(w *world) {
		pass(time.Second)
		expect.Equal(t, "kernel", w.kernel.String(), "")
		if sent := w.peers.messages(); len(sent) == 0 || sent[0] != "node-b: "+string(from("", announce.Take, addrOf(ip)).Body) {
			t.Errorf("the messages are %q", sent)
		}
		// The old load balancer ends before the other node has taken the address.
		w.kernel.mu.Lock()
		delete(w.kernel.answers, ip)
		w.kernel.mu.Unlock()
		pass(10 * time.Second)
		expect.Equal(t, "kernel, when no machine answers any more", w.kernel.String(), ip+"/24 eth0")
	})
}

func TestTheNodeThatServesAnAddressTakesItWithoutAProbe(t *testing.T) {
	ip := byHash["node-b"]
	inWorld(t, func(w *world) {
		w.cluster.snapshot.Services = []corev1.Service{branded("web", ip)}
		w.peers.peers.Members = append(w.peers.peers.Members, reachable("node-b"))
	}, func(w *world) {
		settle()
		expect.Equal(t, "kernel, before", w.kernel.String(), "")
		w.peers.received <- from("node-b", announce.Take, addrOf(ip))
		settle()
		expect.Equal(t, "kernel", w.kernel.String(), ip+"/24 eth0")
		expect.Equal(t, "probed", w.kernel.probed[addrOf(ip)], false)
		pass(time.Minute)
		expect.Equal(t, "kernel, afterwards", w.kernel.String(), ip+"/24 eth0")
		expect.Equal(t, "slots", w.slots("web"), "node-a,eth0,"+ip)
	})
}

// kube-vip has the address on the link of the node.
func TestAnAddressOfKubeVIPIsSharedIfItsUserAsks(t *testing.T) {
	ip := byHash["node-b"]
	inWorld(t, func(w *world) {
		w.kernel.hold(permanent("eth0", ip+"/32"))
		w.cluster.snapshot.Services = []corev1.Service{branded("web", ip)}
		w.peers.peers.Members = append(w.peers.peers.Members, reachable("node-b"))
	}, func(w *world) {
		pass(time.Second)
		expect.Equal(t, "kernel, before", w.kernel.String(), "")
		web := branded("web", ip)
		web.Annotations[service.AnnotationAdopt] = "true"
		web.ResourceVersion = "2"
		w.serve(web)
		expect.Equal(t, "kernel", w.kernel.String(), ip+"/24 eth0")
		w.kernel.changes()
		pass(10 * time.Second)
		expect.Equal(t, "puts afterwards", strings.Count(w.kernel.changes(), " put "), 0)
	})
}
