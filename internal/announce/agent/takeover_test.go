package agent

import (
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/nodes/membership"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/expect"
)

var someMAC = [6]byte{2, 0, 0, 0, 0, 7}

// reachable returns a peer to which gossip can send messages.
func reachable(name string) election.Member {
	m := peer(name)
	m.Reachable = true
	return m
}

// heldBy returns web with its addresses in the slots of node.
func heldBy(node string) corev1.Service {
	web := branded("web", "192.0.2.9", "2001:db8::9")
	web.Annotations[service.AnnotationAnnouncingIPv4] = node + ",eth0,192.0.2.9"
	web.Annotations[service.AnnotationAnnouncingIPv6] = node + ",eth0,2001:db8::9"
	return web
}

// from returns a message of node about addresses, by default those of web.
func from(node string, kind announce.MessageKind, ips ...netip.Addr) membership.Message {
	if ips == nil {
		ips = []netip.Addr{addrOf("192.0.2.9"), addrOf("2001:db8::9")}
	}
	return membership.Message{From: node, Body: announce.Encode(kind, ips)[0], Received: time.Now()}
}

// takes answers an offer: the node has taken the addresses.
func takes(to string, message []byte) (membership.Message, bool) {
	m, err := announce.Decode(message)
	return from(to, announce.Taken, m.Addresses...), err == nil && m.Kind == announce.Take
}

const bothAddresses = "192.0.2.9/24 eth0, 2001:db8::9/64 eth0"

// A pass that adds thousands of addresses takes long. The request is sent after it.
func TestTheNextNodeHasASecondAfterALongPass(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kernel.hold(ours("eth0", "192.0.2.9/24", time.Minute), ours("eth0", "2001:db8::9/64", time.Minute))
		w.cluster.snapshot.Services = []corev1.Service{heldBy("node-a")}
		w.peers.peers.Members = append(w.peers.peers.Members, reachable("node-b"))
	}, func(w *world) {
		w.kernel.change(func() { w.kernel.putting = 2 * time.Second })
		w.cluster.change(func(s *objects) {
			s.Services = append(s.Services, branded("far", "203.0.113.7"))
			s.Node = s.Node.DeepCopy()
			s.Node.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""}
		})
		for len(w.peers.messages()) == 0 {
			pass(10 * time.Millisecond)
		}
		pass(900 * time.Millisecond)
		expect.Equal(t, "kernel, before the second is over", w.kernel.String(), bothAddresses+", 203.0.113.7/32 kube-lb0")
		pass(time.Second)
		expect.Equal(t, "kernel, after the second", w.kernel.String(), "203.0.113.7/32 kube-lb0")
	})
}
