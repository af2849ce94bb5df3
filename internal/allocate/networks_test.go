package allocate

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/nodes/lease"
)

func podsOf(node string, cidrs ...string) corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: corev1.NodeSpec{PodCIDR: cidrs[0], PodCIDRs: cidrs}}
}

func serviceCIDR(name string, cidrs ...string) networkingv1.ServiceCIDR {
	return networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
}

// remoteGroup returns a group in use with one range, which is also its subnet.
func remoteGroup(name, cidr string) v2.ServiceGroup {
	return v2.ServiceGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "purelb", Name: name, UID: types.UID(name)},
		Spec: v2.ServiceGroupSpec{Remote: &v2.RemoteSpec{Pools: v2.Pools{
			V4Pool: &v2.AddressPool{Pool: v2.Range(cidr), Subnet: v2.Subnet(cidr)},
		}}},
	}
}

// Lists of objects come in any order. The order changes nothing, so no Service is looked at again.
func TestOrderOfObjectsChangesNothing(t *testing.T) {
	c := &cluster{
		nodes: []corev1.Node{
			podsOf("n2", "10.244.2.0/24", "fd00:10:244:2::/64"), podsOf("n1", "10.244.1.0/24"), podsOf("n3", "nonsense"),
			{ObjectMeta: metav1.ObjectMeta{Name: "n4"}, Spec: corev1.NodeSpec{PodCIDR: "10.244.4.0/24"}}, nodeWith("n5"),
		},
		services: []networkingv1.ServiceCIDR{serviceCIDR("more", "10.200.0.0/16"), serviceCIDR("kubernetes", "10.96.0.0/16", "fd00:10:96::/112")},
	}
	for _, node := range []string{"n1", "n2", "n3", "n4"} {
		c.leases = append(c.leases, leaseOf(node, lease.AnnotationAddresses, "172.17.0.1,192.168.122.1,fd00::1"))
	}
	const want = "the Service network 10.96.0.0/16, the Service network 10.200.0.0/16, the pod network 10.244.1.0/24 of node n1, " +
		"the pod network 10.244.2.0/24 of node n2, the pod network 10.244.4.0/24 of node n4, the Service network fd00:10:96::/112, " +
		"the pod network fd00:10:244:2::/64 of node n2"
	l := newConfigWatcher(t, c)
	l.live = c
	for i := range 20 {
		differ, err := l.refresh(t.Context())
		if err != nil || differ != (i == 0) {
			t.Fatalf("look %d: differ is %t, %v", i, differ, err)
		}
		var names []string
		for _, n := range l.current().Networks {
			names = append(names, n.What)
		}
		if got := strings.Join(names, ", "); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
	for a, why := range l.current().Blocked {
		if why != "an address of node n1" {
			t.Errorf("%s is %s, want that of the first node by name", a, why)
		}
	}
	if c.reads > 0 {
		t.Error("the Service was read although the networks are known")
	}
}

// A network plugin with pools of its own does not use spec.podCIDRs of Nodes.
func TestIgnoredPodCIDRsAreAllocatable(t *testing.T) {
	c := &cluster{
		nodes:    []corev1.Node{podsOf("n1", "10.244.1.0/24")},
		services: []networkingv1.ServiceCIDR{serviceCIDR("kubernetes", "10.96.0.0/16")},
		groups:   []v2.ServiceGroup{remoteGroup("of-pods", "10.244.1.0/24")},
	}
	for _, ignored := range []bool{false, true} {
		l := newConfigWatcher(t, c)
		l.live, l.install.IgnorePodCIDRs = c, ignored
		if _, err := l.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if usable := len(l.current().Config.Groups.Usable) == 1; usable != ignored {
			t.Errorf("podCIDRs ignored %t: the group is usable %t, networks %v", ignored, usable, l.current().Networks)
		}
	}
}

// Before Kubernetes 1.33, no object tells the network of the ClusterIPs. TestServiceCIDRsNeedNotBeServed
// shows what the allocator concludes from the Service.
func TestServiceKubernetesIsReadOnce(t *testing.T) {
	c := &cluster{kubernetes: []string{"10.96.0.1", "fd00:10:96::1"}}
	l := newConfigWatcher(t, c)
	l.live = c
	c.err = errors.New("the API server is away")
	if _, err := l.refresh(t.Context()); !errors.Is(err, c.err) {
		t.Fatalf("got %v", err)
	}
	c.err = nil
	for range 5 {
		if _, err := l.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if c.reads != 2 {
		t.Errorf("the Service was read %d times, want twice", c.reads)
	}
}
