package allocate_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/internal/allocate"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/apitest"
)

// small is a group of two addresses of each family.
func (w *world) small(name string) client.Object {
	return w.local(name, "192.0.2.1-192.0.2.2", "192.0.2.0/24", "2001:db8::1-2001:db8::2", "2001:db8::/64")
}

func TestServicesGetTheLowestAddresses(t *testing.T) {
	w, _ := smallWorld(t)
	four, six := balancer("four"), balancer("six", ipv6)
	w.allocate(four, "192.0.2.1")
	w.allocate(six, "2001:db8::1")
	both := w.allocate(balancer("both", dualStack(corev1.IPFamilyPolicyRequireDualStack)), "192.0.2.2 2001:db8::2")
	w.says(both, "True", "Allocated", "Assigned 192.0.2.2, 2001:db8::2 from pool default")
	for _, message := range []string{"Assigned IP 192.0.2.2 from pool default", "Assigned IP 2001:db8::2 from pool default"} {
		w.tells(both, "IPAllocated", message)
	}
	if mode := both.Status.LoadBalancer.Ingress[0].IPMode; mode == nil || *mode != corev1.LoadBalancerIPModeVIP {
		t.Errorf("the ipMode is %v, want VIP", mode)
	}
}

func TestTypeChangeRemovesOurData(t *testing.T) {
	w, _ := smallWorld(t)
	svc := w.allocate(balancer("svc", annotated("example.com/a", "b"), func(svc *corev1.Service) { svc.Spec.AllocateLoadBalancerNodePorts = new(bool) }), "192.0.2.1")
	w.patch(svc, `{"metadata":{"annotations":{"purelb.io/announcing-IPv4":"n1,eth0,192.0.2.1"}},"spec":{"type":"ClusterIP","allocateLoadBalancerNodePorts":null}}`)
	w.soon(func() error {
		fetch(w, svc)
		if len(svc.Annotations) != 1 || len(svc.Status.Conditions) > 0 {
			return fmt.Errorf("annotations %v, conditions %v", svc.Annotations, svc.Status.Conditions)
		}
		return nil
	})
	w.tells(svc, "IPReleased", "Released IP 192.0.2.1 from pool default: the Service is of type ClusterIP, not LoadBalancer")
	w.allocate(balancer("next"), "192.0.2.2")

	w.patch(svc, `{"spec":{"type":"LoadBalancer","allocateLoadBalancerNodePorts":false}}`)
	w.has(svc, "192.0.2.1")
	w.hasNoNodePort(svc)
}

func TestTypeChangeDuringDowntimeIsCleanedUp(t *testing.T) {
	w, r := smallWorld(t)
	svc := w.allocate(balancer("svc"), "192.0.2.1")
	r.stop()
	w.patch(svc, `{"spec":{"type":"NodePort"}}`)
	w.allocator()
	w.bare(svc)
}

func TestFamilyChangeKeepsTheOtherAddress(t *testing.T) {
	w, r := smallWorld(t)
	svc := w.allocate(balancer("svc", dualStack("RequireDualStack")), "192.0.2.1 2001:db8::1")
	w.patch(svc, `{"spec":{"ipFamilyPolicy":"SingleStack","ipFamilies":["IPv4"],"clusterIPs":[%q]}}`, svc.Spec.ClusterIP)
	w.has(svc, "192.0.2.1")
	w.tells(svc, "IPReleased", "Released IP 2001:db8::1 from pool default: the Service asks for no IPv6 address any more")
	r.counts(1, "purelb_address_pool_addresses_in_use") // the address is free once the status no longer shows it
	w.allocate(balancer("other", ipv6), "2001:db8::2")
	w.patch(svc, `{"spec":{"ipFamilyPolicy":"RequireDualStack","ipFamilies":["IPv4","IPv6"]}}`)
	w.has(svc, "192.0.2.1 2001:db8::1")
}

func TestOnlyOurServicesGetAddresses(t *testing.T) {
	for _, byDefault := range []bool{true, false} {
		t.Run(fmt.Sprintf("default announcer %t", byDefault), func(t *testing.T) {
			w := idleWorld(t)
			w.allocator(func(o *allocate.Options) { o.Rules.ByDefault = byDefault })
			without, foreign := balancer("without"), balancer("foreign", ofClass("example.com/lb"))
			headless := balancer("headless", func(svc *corev1.Service) { svc.Spec.Type, svc.Spec.ClusterIP = "ClusterIP", "None" })
			w.create(foreign, headless, without)
			ours, alsoOurs := balancer("ours", ofClass(service.ClassV1), ipv6), balancer("also-ours", ofClass(service.ClassV2), ipv6)
			w.allocate(ours, "2001:db8::1")
			w.allocate(alsoOurs, "2001:db8::2")
			if byDefault {
				w.has(without, "192.0.2.1")
			}
			for _, svc := range []*corev1.Service{without, foreign, headless} {
				touched := fetch(w, svc).Annotations[service.AnnotationAllocatedBy] != "" || len(svc.Status.Conditions) > 0
				if touched != (svc == without && byDefault) {
					t.Errorf("%s: annotations %v, conditions %v", svc.Name, svc.Annotations, svc.Status.Conditions)
				}
			}
		})
	}
}

// versions returns the resource versions of all Services and groups.
func (w *world) versions() map[string]string {
	w.Helper()
	all := map[string]string{}
	for _, svc := range w.services() {
		all["Service "+svc.Namespace+"/"+svc.Name] = svc.ResourceVersion
	}
	return all
}

func TestAddressesSurviveGroupChanges(t *testing.T) {
	w := newWorld(t)
	group := w.small("default")
	w.create(group)
	r := w.allocator()
	svc := w.allocate(balancer("svc", dualStack("RequireDualStack")), "192.0.2.1 2001:db8::1")
	version := fetch(w, svc).ResourceVersion
	w.patch(group, `{"spec":{"local":{"v4pools":[{"pool":"192.0.2.1-192.0.2.300","subnet":"192.0.2.0/24"}]}}}`)
	w.judged(mustGroup(group), "False", "ParseError")
	w.says(svc, "True", "Allocated")
	w.remove(group)
	r.counts(0, "purelb_address_pool_size")
	refused := balancer("refused")
	w.create(refused)
	w.says(refused, "False", "UnknownPool", `unknown pool "default"`)
	r.stop()
	w.allocator()
	w.create(w.local("default", "192.0.2.0/29", "192.0.2.0/24", "2001:db8::/125", "2001:db8::/64"))
	w.has(refused, "192.0.2.2") // not 192.0.2.1, which is held
	if fetch(w, svc).ResourceVersion != version {
		t.Errorf("the Service was written: %v", svc.Annotations)
	}
}

func TestExhaustionHealsOldestFirst(t *testing.T) {
	w, r := smallWorld(t)
	first, second := balancer("first"), balancer("second")
	w.create(first, second)
	w.settled(2)
	// The names are in reverse order, so that the names cannot decide.
	third, fourth := balancer("y"), balancer("x")
	w.create(third)
	w.says(third, "False", "Exhausted", `pool "default" exhausted: no available addresses for default/y`)
	w.hasEvent(third, "AllocationFailed", `Failed to allocate IP for "default/y": pool "default" exhausted`, "no available addresses")
	w.outdate(third)
	w.create(fourth)
	w.says(fourth, "False", "Exhausted")
	r.counts(2, "purelb_address_pool_allocation_rejected_total", "pool=default", "reason=exhausted")
	free := addressesOf(fetch(w, first))
	w.remove(first)
	w.has(third, free)
	w.says(third, "True", "Allocated")
	w.says(fourth, "False", "Exhausted")
	w.remove(second)
	w.until(func() bool { return addressesOf(fetch(w, fourth)) != "" })
}

// Each row makes the address of a Service one that no Service may get. The holder keeps the
// address until it asks for another one. Other Services get the address after the cause has ended.
func TestReservedAddressesAreNotHandedOut(t *testing.T) {
	annotates := func(annotation, value string) (begin, end func(*world)) {
		begin = func(w *world) {
			w.create(w.lease("n1", "192.0.2.0/23", "purelb.io/node-macs", "02:00:00:00:00:01", annotation, value))
		}
		return begin, func(w *world) { w.patch(w.lease("n1", ""), `{"metadata":{"annotations":{%q:null}}}`, annotation) }
	}
	deletesNode := func(w *world) { w.remove(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}) }
	ownAddress, noAddress := annotates("purelb.io/node-addresses", "192.0.2.255,2001:db8::1")
	gateway, noGateway := annotates("purelb.io/gateways", "192.0.2.255,2001:db8::1")
	claim, noClaim := annotates("purelb.io/claimed-addresses", "192.0.2.255=02:00:00:00:00:07")
	for _, tt := range []struct {
		name string
		// begin reserves 192.0.2.255, and end ends that.
		begin, end func(*world)
		why        string
	}{
		{"an address of a node", func(w *world) { w.node("n1", "192.0.2.255", "2001:db8::1") }, deletesNode, "an address of node n1"},
		{"an address in the Lease of a node", ownAddress, noAddress, "an address of node n1"},
		{"a default gateway", gateway, noGateway, "the default gateway of node n1"},
		{"an address for which another machine answers", claim, noClaim, "an address of another machine, 02:00:00:00:00:07, as node n1 reports"},
		{"a pod network", func(w *world) {
			w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{PodCIDR: "192.0.2.0/24", PodCIDRs: []string{"192.0.2.0/24"}}})
		}, deletesNode, "an address of the pod network 192.0.2.0/24 of node n1"},
		{"a network of ClusterIPs", addServiceCIDR, removeServiceCIDR, "an address of the Service network 192.0.2.0/24"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.create(w.remote("default", "192.0.2.255-192.0.3.0", "192.0.2.0/23"))
			w.allocator()
			holder, asking, waiting := balancer("holder"), balancer("asking", annotated(service.AnnotationAddresses, "192.0.2.255")), balancer("waiting")
			w.allocate(holder, "192.0.2.255")
			tt.begin(w)
			w.says(holder, "False", "AddressConflict", "192.0.2.255 is also "+tt.why, "purelb.io/re-evaluate")
			w.hasEvent(holder, "AddressConflict", tt.why)
			w.has(holder, "192.0.2.255")
			w.patch(holder, `{"metadata":{"annotations":{"purelb.io/re-evaluate":"true"}}}`)
			w.has(holder, "192.0.3.0")
			w.says(holder, "True", "Allocated")
			w.create(asking, waiting)
			w.says(asking, "False", "AddressReserved", "192.0.2.255", tt.why)
			w.says(waiting, "False", "Exhausted")
			w.remove(asking)
			tt.end(w)
			w.has(waiting, "192.0.2.255")
		})
	}
}

// addServiceCIDR adds a network of ClusterIPs to the cluster.
func addServiceCIDR(w *world) {
	w.since(33, "there are no ServiceCIDRs")
	w.create(&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"192.0.2.0/24"}}})
	w.Cleanup(func() { removeServiceCIDR(w) })
}

func removeServiceCIDR(w *world) {
	more := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "more"}}
	noFinalizer := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)) // no controller removes it here
	must(w, client.IgnoreNotFound(w.client.Patch(context.Background(), more, noFinalizer)))
	must(w, client.IgnoreNotFound(w.client.Delete(context.Background(), more)))
}

func (w *world) node(name string, addresses ...string) client.Object {
	w.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	w.create(n)
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	must(w, w.client.Status().Update(context.Background(), n))
	return w.lease(name, "")
}

// lease returns the Lease of a node's agent.
func (w *world) lease(node, subnets string, annotations ...string) client.Object {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.namespace, Name: "purelb-node-" + node,
		Labels:      map[string]string{"app.kubernetes.io/name": "purelb", "app.kubernetes.io/component": "lbnodeagent"},
		Annotations: map[string]string{"purelb.io/subnets": subnets},
	}}
	for pair := range slices.Chunk(annotations, 2) {
		l.Annotations[pair[0]] = pair[1]
	}
	return l
}

func TestPolicyIsResetWhenASubnetAppears(t *testing.T) {
	w := newWorld(t)
	w.create(w.remote("default", "203.0.113.0/24", "203.0.113.0/24", "2001:db8:6::/120", "2001:db8:6::/64"), w.lease("n1", "10.0.0.0/24"))
	w.allocator()
	four, six := balancer("four", localPolicy), balancer("six", ipv6, localPolicy)
	w.create(four, six)
	w.settled(2)
	w.create(w.lease("n2", "10.0.0.0/24,2001:db8:6::/64"))
	w.hasPolicy(six, "Cluster")
	w.hasEvent(six, "LocalOverride", "2001:db8:6::1")
	w.hasPolicy(four, "Local")
}

func TestSharingOfOlderReleasesIsKept(t *testing.T) {
	w := idleWorld(t)
	// Older releases let Services of all namespaces share an address, and did not check the
	// ports when a Service was edited.
	apitest.EnsureNamespace(t, "other")
	var sharers []*corev1.Service
	for _, svc := range []*corev1.Service{
		balancer("a-http", keyed("key", "80/TCP")), balancer("b-https", keyed("key", "443/TCP"), inNamespace("other")),
		balancer("c-http", keyed("key", "80/TCP", "8080/TCP")),
	} {
		svc.Annotations[service.AnnotationAllocatedBy], svc.Annotations[service.AnnotationAllocatedFrom] = service.Brand, "default"
		w.create(svc)
		w.patchStatus(svc, `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`)
		sharers = append(sharers, svc)
	}
	w.allocator()
	for _, svc := range sharers[:2] {
		w.says(svc, "True", "Allocated")
		w.has(svc, "192.0.2.1")
	}
	w.says(sharers[2], "False", "PortConflict", "192.0.2.1", "80", "default/a-http")
	w.has(sharers[2], "192.0.2.1")
	w.remove(sharers[0])
	w.says(sharers[2], "True", "Allocated")
	w.allocate(balancer("next"), "192.0.2.2")
}
