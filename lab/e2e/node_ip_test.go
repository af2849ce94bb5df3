package e2e

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/lab/product"
)

// Promise: nothing foreign is touched, and other programs of a node that read its addresses are told from
// what they get wrong.

// kubeletLooks is longer than a kubelet waits between two reports of the addresses of its node.
const kubeletLooks = 12 * time.Second

// A kubelet without --node-ip takes the newest IPv6 address of an interface for the address of its node.
func TestAServiceAddressThatAKubeletTakesForItsNodeIsNamed(t *testing.T) {
	w := newWorld(t)
	w.expect("configProblem", "addressConflict") // the allocator names it too
	s := watchLocal(w)
	if !lab.World().NoNodeIP {
		time.Sleep(kubeletLooks)
		if w.taken(s.addresses) {
			t.Error("a kubelet with --node-ip has taken the address of a Service")
		}
		return
	}
	w.until(patience, "a kubelet takes the address of a Service for that of its node", func() bool { return w.taken(s.addresses) })
	w.eventuallyIn(product.Namespace, "ServiceIsNodeAddress")
	s.begin()
	s.rest(patience)
	s.end(nothing)
	s.stays(s.holder())
	w.remove(service("web", "local"))
	w.until(patience, "the kubelet has the address of its node again", func() bool { return !w.taken(s.addresses) })
}

// taken reports whether a Node has one of the addresses.
func (w *world) taken(addresses []netip.Addr) bool {
	w.t.Helper()
	var nodes corev1.NodeList
	if err := w.List(w.ctx, &nodes); err != nil {
		w.t.Fatal(err)
	}
	return slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool {
		return slices.ContainsFunc(n.Status.Addresses, func(at corev1.NodeAddress) bool {
			ip, err := netip.ParseAddr(at.Address)
			return err == nil && slices.Contains(addresses, ip)
		})
	})
}
