package agent

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/testing/expect"
)

// known sets the addresses of the node in Kubernetes.
func known(ips ...string) func(*objects) {
	return func(s *objects) {
		s.Node = s.Node.DeepCopy()
		s.Node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "node-a"}}
		for _, ip := range ips {
			s.Node.Status.Addresses = append(s.Node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
		}
	}
}

// A kubelet without --node-ip takes the first address of an interface. For IPv6 that is the newest one.
func TestAServiceAddressThatKubernetesTakesForTheNodesIsNamedOnce(t *testing.T) {
	const text = "has the address of Service default/web, 2001:db8::9, as its own in Kubernetes, so other nodes reach it there: " +
		"set --node-ip for its kubelet (node-ip with K3s and RKE2), and IP_AUTODETECTION_METHOD=kubernetes-internal-ip with Calico"
	inWorld(t, nil, func(w *world) {
		w.serve(branded("web", "192.0.2.9", "2001:db8::9"))
		w.cluster.change(known("2001:db8::1"))
		pass(time.Minute)
		w.reported()
		w.cluster.change(known("2001:db8::9"))
		pass(time.Minute)
		expect.Equal(t, "events", w.reported(), "Warning ServiceIsNodeAddress Node node-a "+text)
		expect.Contains(t, "the published record", w.peers.publications(), "purelb/default it "+text)
		w.cluster.change(known("2001:db8::1"))
		pass(time.Minute)
		lacks(t, "the published record, with --node-ip", w.peers.publications(), "kubelet")
	})
}

func TestANodeThatAsksInTheNameOfAServiceIsNamedOnce(t *testing.T) {
	inWorld(t, func(w *world) { w.kernel.anySender = true }, func(w *world) {
		pass(time.Minute)
		expect.Equal(t, "events before there is a remote address", w.reported(), "")
		w.serve(branded("far", "203.0.113.7"))
		pass(5 * time.Minute)
		expect.Contains(t, "events", w.reported(), "Warning ARPSenderNotStrict Node node-a asks for its gateway as 203.0.113.7, the address of a Service")
		pass(5 * time.Minute)
		expect.Equal(t, "events later", w.reported(), "")
	})
}

func TestWithoutADummyDriverLocalAddressesAreAnnounced(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kernel.dummyErr = errors.New("no driver: install its package")
		w.cluster.snapshot.Services = []corev1.Service{branded("web", "192.0.2.9", "2001:db8::9")}
	}, func(w *world) {
		pass(5 * time.Minute)
		expect.Equal(t, "kernel", w.kernel.String(), bothAddresses)
		const text = "announces no remote addresses: no driver: install its package"
		expect.Equal(t, "events", strings.Count(w.reported(), "Warning NoDummyInterface Node node-a "+text), 1)
		expect.Contains(t, "the published record", w.peers.publications(), "it "+text)
		w.kernel.change(func() { w.kernel.dummyErr = nil })
		pass(time.Minute)
		lacks(t, "the published record, with the driver", w.peers.publications(), "driver")
		if !w.kernel.has("kube-lb0") {
			t.Error("the agent does not try again")
		}
	})
}

func TestTheGossipAddressFollowsTheNode(t *testing.T) {
	inWorld(t, func(w *world) {
		w.agent.gossip = netip.MustParseAddrPort("192.0.2.99:7934")
	}, func(w *world) {
		expect.Equal(t, "gossip address", w.peers.gossip, "192.0.2.99:7934")
		w.cluster.change(known("192.0.2.1"))
		settle()
		expect.Equal(t, "gossip address of the renumbered node", w.peers.gossip, "192.0.2.1:7934")
	})
}
