package agent

import (
	"net/netip"
	"strings"
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

func TestOldSilenceIsProbedAgain(t *testing.T) {
	for name, wake := range map[string]func(*fakeKernel){
		"the loop is blocked during the probes": func(k *fakeKernel) { k.change(func() {}) },
		"the loop is blocked after the probes":  func(*fakeKernel) {},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) { w.kernel.probing = 100 * time.Millisecond }, func(w *world) {
				w.cluster.change(serving(branded("web", "192.0.2.9")))
				pass(50 * time.Millisecond)
				goOn := w.kernel.stick()
				wake(w.kernel)
				pass(5 * time.Second)
				w.kernel.mu.Lock()
				w.kernel.answers["192.0.2.9"] = someMAC // another machine takes the address meanwhile
				w.kernel.mu.Unlock()
				pass(5 * time.Second)
				goOn()
				pass(time.Second)
				expect.Equal(t, "kernel", w.kernel.String(), "")
			})
		})
	}
}

func TestAnOfferedAddressIsTakenAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kernel.answers["192.0.2.9"], w.kernel.answers["2001:db8::9"] = someMAC, someMAC
		w.cluster.snapshot.Services = []corev1.Service{heldBy("node-b")}
		b := reachable("node-b")
		b.Draining = true
		w.peers.peers.Members = append(w.peers.peers.Members, b)
	}, func(w *world) {
		settle()
		expect.Equal(t, "kernel, before", w.kernel.String(), "")
		w.kernel.changes()
		w.peers.received <- from("node-b", announce.Take)
		settle()
		expect.Equal(t, "kernel", w.kernel.String(), bothAddresses)
		if claims := w.kernel.claims(); len(claims) != 2 {
			t.Errorf("the agent claims %v at once, want both addresses", claims)
		}
		expect.Equal(t, "messages", strings.Join(w.peers.messages(), "\n"), "node-b: "+string(from("node-a", announce.Taken).Body))
		w.peers.received <- membership.Message{From: "node-c", Body: []byte("nonsense")}
		settle()
		expect.Equal(t, "kernel, after nonsense", w.kernel.String(), bothAddresses)
	})
}

func TestAnAddressOfAnOldOfferIsProbedFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cluster.snapshot.Services = []corev1.Service{heldBy("node-a")}
		w.kernel.answers["192.0.2.9"], w.kernel.answers["2001:db8::9"] = someMAC, someMAC
		w.peers.peers.Members = append(w.peers.peers.Members, reachable("node-b"))
	}, func(w *world) {
		settle()
		goOn := w.kernel.stick()
		w.kernel.change(func() {})
		settle()
		w.peers.received <- from("node-b", announce.Take)
		pass(3 * time.Second)
		goOn()
		pass(time.Second)
		expect.Equal(t, "kernel", w.kernel.String(), "")
	})
}

func TestAddressesLeaveALinkWithoutCarrierAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kernel.hold(ours("eth0", "192.0.2.9/24", time.Minute), ours("eth0", "2001:db8::9/64", time.Minute))
		w.cluster.snapshot.Services = []corev1.Service{heldBy("node-a")}
		w.peers.heard = func(p *election.Peers) { // gossip returns the published record to this node at once
			p.Members = []election.Member{peer("node-a"), reachable("node-b")}
			if !strings.Contains(w.peers.published[len(w.peers.published)-1], "192.0.2.0/24") {
				p.Members[0].Subnets = nil
			}
		}
	}, func(w *world) {
		w.kernel.plug("eth0", false)
		settle()
		expect.Equal(t, "kernel, without a carrier", w.kernel.String(), "")
		expect.Equal(t, "messages", len(w.peers.messages()), 1)
		w.kernel.change(func() { w.kernel.answers["192.0.2.9"], w.kernel.answers["2001:db8::9"] = someMAC, someMAC })
		w.kernel.plug("eth0", true)
		pass(5 * time.Second)
		expect.Equal(t, "kernel, with a carrier, while another node has them", w.kernel.String(), "")
	})
}

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
