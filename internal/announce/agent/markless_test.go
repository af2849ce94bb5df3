package agent

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/expect"
)

// withoutMarks runs test with a kernel without marks. The node's own address is in a pool and has a
// lifetime, as an address that NetworkManager got by DHCP.
func withoutMarks(t *testing.T, before func(*world), test func(*world)) {
	inWorld(t, func(w *world) {
		own := ours("eth0", "192.0.2.50/24", time.Hour)
		own.Mark = 0
		w.kernel.markless = true
		w.kernel.hold(own)
		before(w)
	}, func(w *world) {
		test(w)
		lacks(t, "changes", w.kernel.changes(), "192.0.2.50")
	})
}

// No pool contains an address of a backend. The address is ours while a Service has it, and then
// until the agent has removed it.
func TestAKernelWithoutMarksRemovesAddressesOfBackends(t *testing.T) {
	withoutMarks(t, func(w *world) {
		found, operators := permanent("kube-lb0", "198.18.0.8/32"), permanent("kube-lb0", "198.18.0.9/32")
		found.Mark, operators.Mark = announce.Mark, announce.Mark // the kernel does not return marks
		w.kernel.hold(found, operators)
		w.kernel.links = append(w.kernel.links, announce.Link{Name: "kube-lb0", Up: true})
		netbox := v2.ServiceGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "purelb", Name: "netbox"}}
		netbox.Spec.Netbox = &v2.NetboxSpec{URL: "https://netbox/"}
		w.cluster.snapshot.Groups = append(w.cluster.snapshot.Groups, netbox)
		svc := branded("web", "198.18.0.7", "198.18.0.8")
		svc.Annotations[service.AnnotationAllocatedFrom] = "netbox"
		w.cluster.snapshot.Services = []corev1.Service{svc}
	}, func(w *world) {
		pass(10 * time.Minute)
		expect.Equal(t, "kernel", w.kernel.String(), "198.18.0.7/32 kube-lb0, 198.18.0.8/32 kube-lb0, 198.18.0.9/32 kube-lb0")
		expect.Equal(t, "events", w.reported(), "Normal AnnouncingNonLocal Announcing 198.18.0.7 from node node-a interface kube-lb0")
		w.kernel.change(func() { w.kernel.removeErr = errors.New("busy") })
		w.cluster.change(serving())
		pass(10 * time.Second)
		w.kernel.change(func() { w.kernel.removeErr = nil })
		pass(10 * time.Minute)
		expect.Equal(t, "kernel, without Services", w.kernel.String(), "198.18.0.9/32 kube-lb0")
	})
}

// The agent did not run, or could not remove the addresses, when the name changed.
func TestAKernelWithoutMarksClearsAnEarlierDummyInterface(t *testing.T) {
	withoutMarks(t, func(w *world) {
		found, operators := permanent("lb9", "203.0.113.7/32"), permanent("lb9", "198.18.0.9/32")
		found.Mark, operators.Mark = announce.Mark, announce.Mark // the kernel does not return marks
		w.kernel.hold(found, operators)
		w.kernel.links = append(w.kernel.links, announce.Link{Name: "lb9", Index: 8, Kind: "dummy", Up: true, Carrier: true, Made: true})
		w.cluster.snapshot.Services = []corev1.Service{branded("far", "203.0.113.7")}
	}, func(w *world) {
		settle()
		expect.Equal(t, "kernel", w.kernel.String(), "198.18.0.9/32 lb9, 203.0.113.7/32 kube-lb0")
		expect.Equal(t, "events", w.reported(), "Normal AnnouncingNonLocal Announcing 203.0.113.7 from node node-a interface kube-lb0")
	})
}

// PureLB 0.17 sets no marks, and its agent may end without removing its addresses.
func TestAddressesOfAnEarlierGenerationAreTakenOver(t *testing.T) {
	inWorld(t, func(w *world) {
		local := ours("eth0", "192.0.2.9/24", 5*time.Minute)
		local.Mark = 0
		w.kernel.hold(local, permanent("kube-lb0", "203.0.113.7/32"))
		w.kernel.links = append(w.kernel.links, announce.Link{Name: "kube-lb0", Index: 8, Kind: "dummy", Up: true, Carrier: true})
		web := branded("web", "192.0.2.9")
		web.Annotations[service.AnnotationAnnouncingIPv4] = "node-a,eth0,192.0.2.9"
		w.cluster.snapshot.Services = []corev1.Service{web, branded("far", "203.0.113.7")}
	}, func(w *world) {
		settle()
		expect.Equal(t, "kernel", w.kernel.String(), "192.0.2.9/24 eth0, 203.0.113.7/32 kube-lb0")
		expect.Equal(t, "events", w.reported(), "")
		w.cluster.change(serving())
		settle()
		expect.Equal(t, "kernel, without Services", w.kernel.String(), "")
	})
}
