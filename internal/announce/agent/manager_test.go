package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/testing/expect"
)

// flush takes all addresses and the default routes off eth0. restore adds the node's own again.
func (k *fakeKernel) flush() (restore func()) {
	routes := func(there bool) {
		for i := range k.links {
			if k.links[i].Name == "eth0" {
				k.links[i].Default4, k.links[i].Default6 = there, there
			}
		}
	}
	k.change(func() {
		k.addresses = slices.DeleteFunc(k.addresses, func(h held) bool { return h.Link == "eth0" })
		routes(false)
	})
	return func() {
		k.change(func() {
			k.hold(permanent("eth0", "192.0.2.1/24"), permanent("eth0", "2001:db8::1/64"))
			routes(true)
		})
	}
}

// managed has web on node-a. Its network manager is about to do something. node-b could have the addresses.
func managed(t *testing.T, test func(*world)) {
	inWorld(t, func(w *world) {
		w.kernel.hold(ours("eth0", "192.0.2.9/24", time.Minute), ours("eth0", "2001:db8::9/64", time.Minute))
		w.cluster.snapshot.Services = []corev1.Service{heldBy("node-a")}
		w.peers.peers.Members = append(w.peers.peers.Members, reachable("node-b"))
		w.peers.heard = func(p *election.Peers) { // gossip returns the published record to this node at once
			p.Members[0].Subnets = nil
			if strings.Contains(w.peers.published[len(w.peers.published)-1], "192.0.2.0/24 2001:db8::/64") {
				p.Members[0].Subnets = subnets
			}
		}
	}, func(w *world) {
		pass(time.Minute)
		expect.Equal(t, "kernel, before", w.kernel.String(), bothAddresses)
		w.reported()
		test(w)
	})
}

// offers returns how often other nodes were asked to take addresses.
func (w *world) offers() (n int) {
	for _, line := range w.peers.messages() {
		_, message, _ := strings.Cut(line, ": ")
		if m, err := announce.Decode([]byte(message)); err == nil && m.Kind == announce.Take {
			n++
		}
	}
	return n
}

func TestANetworkManagerThatFlushesDoesNotMoveAddresses(t *testing.T) {
	managed(t, func(w *world) {
		for range 20 {
			restore := w.kernel.flush()
			settle()
			expect.Equal(t, "kernel, after the flush", w.kernel.String(), "192.0.2.9/32 eth0, 2001:db8::9/64 eth0")
			pass(300 * time.Millisecond)
			restore()
			settle()
			expect.Equal(t, "kernel, when the node has its addresses again", w.kernel.String(), bothAddresses)
			pass(700 * time.Millisecond)
		}
		expect.Equal(t, "offers to node-b", w.offers(), 0)
		expect.Equal(t, "events", w.reported(), "Warning AddressesRemoved Node node-a has a program that took addresses of Services off eth0 again and again, "+
			"most likely NetworkManager (unmanaged-devices, or no restart of the connection), a DHCP client, or systemd-networkd (KeepConfiguration=yes)")
	})
}

func TestANetworkManagerThatPrunesDoesNotMoveAddresses(t *testing.T) {
	managed(t, func(w *world) {
		for range 20 {
			w.kernel.change(func() { w.kernel.addresses = w.kernel.addresses[:3] })
			settle()
			expect.Equal(t, "kernel, at once", w.kernel.String(), bothAddresses)
			pass(time.Second)
		}
		expect.Equal(t, "offers to node-b", w.offers(), 0)
		expect.Equal(t, "events", w.reported(), "Warning AddressesRemoved Node node-a has a program that took addresses of Services off eth0 again and again, "+
			"most likely systemd-networkd: set KeepConfiguration=yes for the interface, and ManageForeignRoutes=no in networkd.conf")
		expect.Contains(t, "the published record", w.peers.publications(), "took addresses of Services off eth0")
		pass(time.Hour)
		lacks(t, "the published record, later", w.peers.publications(), "took addresses of Services off eth0")
	})
}

// The process was stopped, or its machine was. The addresses expired, and another node took them.
func TestAnAgentThatWasStoppedProbesBeforeItAddsAddressesAgain(t *testing.T) {
	managed(t, func(w *world) {
		stuck := make(chan struct{})
		w.kernel.change(func() { w.kernel.stuck = stuck })
		pass(time.Minute)
		w.kernel.change(func() {
			w.kernel.stuck = nil
			w.kernel.addresses = w.kernel.addresses[:3]
			w.kernel.answers["192.0.2.9"], w.kernel.answers["2001:db8::9"] = someMAC, someMAC
		})
		close(stuck)
		pass(10 * time.Second)
		expect.Equal(t, "kernel", w.kernel.String(), "")
	})
}

func TestTheLinkForRemoteAddressesComesBackAtOnce(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.serve(branded("far", "203.0.113.7", "2001:db8:9::7"))
		pass(time.Minute)
		w.reported()
		for range 20 {
			w.kernel.change(func() {
				w.kernel.links = slices.DeleteFunc(w.kernel.links, func(l announce.Link) bool { return l.Name == "kube-lb0" })
				w.kernel.addresses = w.kernel.addresses[:3]
			})
			settle()
			expect.Equal(t, "kernel, at once", w.kernel.String(), "2001:db8:9::7/128 kube-lb0, 203.0.113.7/32 kube-lb0")
			pass(time.Second)
		}
		expect.Equal(t, "events", w.reported(), "Warning AddressesRemoved Node node-a has a program that took addresses of Services off kube-lb0 again and again, "+
			"most likely systemd-networkd (set Unmanaged=yes for kube-lb0) or NetworkManager (unmanaged-devices=interface-name:kube-lb0)")
	})
}

// The network of the node is gone for good.
func TestAddressesFollowANetworkThatDoesNotComeBack(t *testing.T) {
	managed(t, func(w *world) {
		w.peers.answer = takes
		w.kernel.flush()
		pass(4 * time.Second)
		expect.Equal(t, "kernel, for some seconds", w.kernel.String(), "192.0.2.9/32 eth0, 2001:db8::9/64 eth0")
		pass(2 * time.Second)
		expect.Equal(t, "kernel, later", w.kernel.String(), "")
		expect.Equal(t, "offers to node-b", w.offers(), 1)
	})
}

// A network manager flushes the interface of the holder once a second. This test measures a time, so it does
// not run in parallel with others.
func TestSegmentAFlushedAddressComesBackAtOnce(t *testing.T) {
	s, have, lacks, _ := pair(t, nil)
	h, ended := s.hosts[have], make(chan struct{})
	longest := make(chan time.Duration, 1)
	go func() {
		var worst time.Duration
		last := time.Now()
		for {
			select {
			case <-ended:
				longest <- worst
				return
			case <-time.After(time.Millisecond):
			}
			all, err := h.stack.Addresses(context.WithoutCancel(t.Context()))
			if err != nil {
				continue
			}
			if slices.ContainsFunc(all, func(a announce.Address) bool { return a.Prefix.Addr() == addrOf("192.0.2.9") }) {
				last = time.Now()
			}
			worst = max(worst, time.Since(last))
		}
	}()
	number := map[string]int{"a": 1, "b": 2, "c": 3}[have]
	for range 5 {
		h.ip("addr flush dev eth0 scope global\nroute flush dev eth0")
		time.Sleep(300 * time.Millisecond)
		h.ip(fmt.Sprintf(`addr add 192.0.2.%[1]d/24 dev eth0
			addr add 2001:db8::%[1]d/64 dev eth0 nodad
			route add default via 192.0.2.254`, number))
		time.Sleep(700 * time.Millisecond)
		if got := s.holders("192.0.2.9"); got != have {
			t.Errorf("the address is on %q, want it on %s and not on %s", got, have, lacks)
		}
	}
	close(ended)
	worst := <-longest
	t.Logf("the address was away for %s at most", worst)
	if worst > 200*time.Millisecond { // 50 ms on an idle machine
		t.Errorf("the address was away for %s", worst)
	}
	s.expect("after the last flush", have)
}
