package allocator_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/internal/allocator"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/apitest"
)

// small is a group of two addresses of each family.
func (w *world) small(name string) client.Object {
	return w.local(name, "192.0.2.1-192.0.2.2", "192.0.2.0/24", "2001:db8::1-2001:db8::2", "2001:db8::/64")
}

func TestServicesGetTheLowestAddresses(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"))
	w.allocator()
	four, six := balancer("four"), balancer("six", ipv6)
	w.create(four)
	w.has(four, "192.0.2.1")
	w.create(six)
	w.has(six, "2001:db8::1")
	both := balancer("both", dualStack(corev1.IPFamilyPolicyRequireDualStack))
	w.create(both)
	w.has(both, "192.0.2.2 2001:db8::2")
	w.says(both, "True", "Allocated", "Assigned 192.0.2.2, 2001:db8::2 from pool default")
	for _, message := range []string{"Assigned IP 192.0.2.2 from pool default", "Assigned IP 2001:db8::2 from pool default"} {
		w.tells(both, "IPAllocated", message)
	}
	if mode := both.Status.LoadBalancer.Ingress[0].IPMode; mode == nil || *mode != corev1.LoadBalancerIPModeVIP {
		t.Errorf("the ipMode is %v, want VIP", mode)
	}
}

func TestAddressIsReusedAfterDeletion(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"))
	w.allocator()
	a, b := balancer("a", dualStack("RequireDualStack")), balancer("b", dualStack("RequireDualStack"))
	w.create(a)
	w.has(a, "192.0.2.1 2001:db8::1")
	w.create(b)
	w.has(b, "192.0.2.2 2001:db8::2")
	w.remove(a)
	c := balancer("c", dualStack("RequireDualStack"))
	w.create(c)
	w.has(c, "192.0.2.1 2001:db8::1")
}

func TestTypeChangeRemovesOurData(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"))
	w.allocator()
	svc := balancer("svc", annotated("example.com/a", "b"))
	w.create(svc)
	w.has(svc, "192.0.2.1")
	w.patch(svc, `{"metadata":{"annotations":{"purelb.io/announcing-IPv4":"n1,eth0,192.0.2.1"}},"spec":{"type":"ClusterIP"}}`)
	w.soon(func() error {
		fetch(w, svc)
		if len(svc.Annotations) != 1 || len(svc.Status.Conditions) > 0 {
			return fmt.Errorf("annotations %v, conditions %v", svc.Annotations, svc.Status.Conditions)
		}
		return nil
	})
	w.tells(svc, "IPReleased", "Released IP 192.0.2.1 from pool default: the Service is of type ClusterIP, not LoadBalancer")
	next := balancer("next")
	w.create(next)
	w.has(next, "192.0.2.1")

	w.patch(svc, `{"spec":{"type":"LoadBalancer"}}`)
	w.has(svc, "192.0.2.2")
}

func TestTypeChangeDuringDowntimeIsCleanedUp(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"))
	r := w.allocator()
	svc := balancer("svc")
	w.create(svc)
	w.has(svc, "192.0.2.1")
	r.stop()
	w.patch(svc, `{"spec":{"type":"NodePort"}}`)
	w.allocator()
	w.soon(func() error {
		if len(fetch(w, svc).Annotations) > 0 {
			return fmt.Errorf("annotations %v", svc.Annotations)
		}
		return nil
	})
}

func TestFamilyChangeKeepsTheOtherAddress(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"))
	r := w.allocator()
	svc := balancer("svc", dualStack("RequireDualStack"))
	w.create(svc)
	w.has(svc, "192.0.2.1 2001:db8::1")
	w.patch(svc, `{"spec":{"ipFamilyPolicy":"SingleStack","ipFamilies":["IPv4"],"clusterIPs":[%q]}}`, svc.Spec.ClusterIP)
	w.has(svc, "192.0.2.1")
	w.tells(svc, "IPReleased", "Released IP 2001:db8::1 from pool default: the Service asks for no IPv6 address any more")
	r.counts(1, "purelb_address_pool_addresses_in_use") // the address is free once the status no longer shows it
	other := balancer("other", ipv6)
	w.create(other)
	w.has(other, "2001:db8::1")
	w.patch(svc, `{"spec":{"ipFamilyPolicy":"RequireDualStack","ipFamilies":["IPv4","IPv6"]}}`)
	w.has(svc, "192.0.2.1 2001:db8::2")
}

func TestOnlyOurServicesGetAddresses(t *testing.T) {
	class := func(name string) func(*corev1.Service) {
		return func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = &name }
	}
	for _, byDefault := range []bool{true, false} {
		t.Run(fmt.Sprintf("default announcer %t", byDefault), func(t *testing.T) {
			w := newWorld(t)
			w.create(w.small("default"))
			w.allocator(func(o *allocator.Options) { o.DefaultAnnouncer = byDefault })
			without, foreign := balancer("without"), balancer("foreign", class("example.com/lb"))
			headless := balancer("headless", func(svc *corev1.Service) { svc.Spec.Type, svc.Spec.ClusterIP = "ClusterIP", "None" })
			w.create(foreign, headless, without)
			ours, alsoOurs := balancer("ours", class(service.ClassV1), ipv6), balancer("also-ours", class(service.ClassV2), ipv6)
			w.create(ours)
			w.has(ours, "2001:db8::1")
			w.create(alsoOurs)
			w.has(alsoOurs, "2001:db8::2")
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

func TestForeignServicesAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"))
	theirs := balancer("theirs")
	theirs.Annotations = nil
	w.create(theirs)
	w.patchStatus(theirs, `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`)
	version := fetch(w, theirs).ResourceVersion
	w.allocator()
	ours := balancer("ours")
	w.create(ours)
	w.has(ours, "192.0.2.2") // 192.0.2.1 is in use, whichever controller gave it
	if fetch(w, theirs); theirs.ResourceVersion != version || addressesOf(theirs) != "192.0.2.1" {
		t.Errorf("the allocator wrote the Service: %v %v", theirs.Annotations, theirs.Status)
	}
}

func TestRestartKeepsAddressesAndWritesNothing(t *testing.T) {
	w := newWorld(t)
	group := w.remote("default", "198.51.100.0/24", "198.51.100.0/24", "2001:db8:5::/120", "2001:db8:5::/64")
	w.create(group)
	r := w.allocator()
	const n = 30
	for i := range n {
		w.create(balancer(fmt.Sprintf("svc-%02d", i), []func(*corev1.Service){ipv6, dualStack("PreferDualStack"), localPolicy}[i%3]))
	}
	have := w.settled(n)
	w.create(balancer("refused", inGroup("blue")))
	w.says(named("default", "refused"), "False", "UnknownPool")
	w.soon(func() error {
		if s := fetch(w, group).Status; s.AllocatedIPv4 != 20 || s.AllocatedIPv6 != 20 {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
	r.stop()

	versions := w.versions()
	r = w.allocator()
	w.soon(func() error {
		if r.counter("purelb_address_pool_addresses_in_use") != 40 || !strings.Contains(r.log.String(), "bookOpened") {
			return errNotYet
		}
		return nil
	})
	// The new Service is served after the existing ones. Once it has its address, the loop
	// has looked at all of them.
	late := balancer("zz-late")
	w.create(late)
	w.soon(func() error {
		if addressesOf(fetch(w, late)) == "" {
			return errNotYet
		}
		return nil
	})
	now := w.versions()
	delete(now, "Service default/zz-late")
	for name, version := range versions {
		if !strings.HasPrefix(name, "ServiceGroup") && now[name] != version {
			t.Errorf("%s was written", name)
		}
	}
	w.remove(late)
	if again := w.settled(n); !equalMaps(again, have) {
		t.Errorf("had %v, has %v", have, again)
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

func equalMaps(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

func TestAddressesSurviveGroupChanges(t *testing.T) {
	w := newWorld(t)
	group := w.small("default")
	w.create(group)
	r := w.allocator()
	svc := balancer("svc", dualStack("RequireDualStack"))
	w.create(svc)
	w.has(svc, "192.0.2.1 2001:db8::1")
	version := fetch(w, svc).ResourceVersion
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
	w := newWorld(t)
	w.create(w.small("default"))
	r := w.allocator()
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
	w.soon(func() error {
		if addressesOf(fetch(w, fourth)) == "" {
			return errNotYet
		}
		return nil
	})
}

func TestAPreferredFamilyComesLater(t *testing.T) {
	w := newWorld(t)
	w.create(w.local("default", "192.0.2.1-192.0.2.2", "192.0.2.0/24"))
	w.allocator()
	svc := balancer("svc", dualStack(corev1.IPFamilyPolicyPreferDualStack))
	w.create(svc)
	w.has(svc, "192.0.2.1")
	w.says(svc, "True", "PartiallyAllocated", "no available addresses")
	group := w.local("default")
	w.patch(group, `{"spec":{"local":{"v6pools":[{"pool":"2001:db8::7-2001:db8::9","subnet":"2001:db8::/64"}]}}}`)
	w.has(svc, "192.0.2.1 2001:db8::7")
	w.says(svc, "True", "Allocated")
}

func TestPinnedAddresses(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"), w.remote("far", "198.51.100.0/24", "198.51.100.0/24"))
	w.allocator()
	pinned := balancer("pinned", annotated(service.AnnotationAddresses, "198.51.100.77 , 2001:db8::2"), dualStack("RequireDualStack"))
	w.create(pinned)
	w.has(pinned, "198.51.100.77 2001:db8::2")
	w.annotation(pinned, service.AnnotationAllocatedFrom, "far, default")

	taken := balancer("taken", annotated(service.AnnotationAddresses, "198.51.100.77"))
	outside := balancer("outside", annotated(service.AnnotationAddresses, "10.9.8.7"))
	wrong := balancer("wrong", annotated(service.AnnotationAddresses, "nonsense"))
	w.create(taken, outside, wrong)
	w.says(taken, "False", "AddressInUse", "198.51.100.77", "already in use by default/pinned")
	w.says(outside, "False", "AddressOutsidePools", "10.9.8.7")
	w.says(wrong, "False", "InvalidRequest", `"nonsense" is not an IP address`)
	w.remove(pinned)
	w.has(taken, "198.51.100.77")
	w.patch(wrong, `{"metadata":{"annotations":{"purelb.io/addresses":"192.0.2.2"}}}`)
	w.has(wrong, "192.0.2.2")
}

func TestNodeAddressIsNeverGiven(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"), w.node("node-2", "192.0.2.1", "2001:db8::1"))
	w.allocator()
	svc := balancer("svc", dualStack("RequireDualStack"))
	w.create(svc)
	w.has(svc, "192.0.2.2 2001:db8::2")
	asking := balancer("asking", annotated(service.AnnotationAddresses, "192.0.2.1"))
	w.create(asking)
	w.says(asking, "False", "AddressReserved", "192.0.2.1", "node-2")
	w.remove(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}})
	w.has(asking, "192.0.2.1")
}

func TestAddressInANodeLeaseIsNeverGiven(t *testing.T) {
	w := newWorld(t)
	l := w.lease("node-2", "", "purelb.io/node-addresses", "192.0.2.1,2001:db8::1")
	w.create(w.small("default"), l)
	w.allocator()
	svc := balancer("svc", dualStack("RequireDualStack"))
	w.create(svc)
	w.has(svc, "192.0.2.2 2001:db8::2")
	asking := balancer("asking", annotated(service.AnnotationAddresses, "192.0.2.1"))
	w.create(asking)
	w.says(asking, "False", "AddressReserved", "192.0.2.1", "node-2")
	w.patch(l, `{"metadata":{"annotations":{"purelb.io/node-addresses":"2001:db8::1"}}}`)
	w.has(asking, "192.0.2.1")
}

func TestGatewaysAreNotHandedOut(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"))
	w.allocator()
	holder := balancer("holder")
	w.create(holder)
	w.has(holder, "192.0.2.1")

	// A node with that default route joins. The Service keeps its address.
	l := w.lease("node-1", "192.0.2.0/24", "purelb.io/gateways", "192.0.2.1,2001:db8::1")
	w.create(l)
	w.says(holder, "False", "AddressConflict", "192.0.2.1 is also the default gateway of node node-1", "purelb.io/re-evaluate")
	w.has(holder, "192.0.2.1")
	w.patch(holder, `{"metadata":{"annotations":{"purelb.io/re-evaluate":"true"}}}`)
	w.has(holder, "192.0.2.2")
	w.says(holder, "True", "Allocated")

	asking, six := balancer("asking", annotated(service.AnnotationAddresses, "192.0.2.1")), balancer("six", ipv6)
	w.create(asking, six)
	w.says(asking, "False", "AddressReserved", "192.0.2.1", "the default gateway of node node-1")
	w.has(six, "2001:db8::2")
	w.patch(l, `{"metadata":{"annotations":{"purelb.io/gateways":null}}}`)
	w.has(asking, "192.0.2.1")
}

func TestQuarantinedAddressesAreNotGiven(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"))
	l := w.lease("node-1", "192.0.2.0/24", "purelb.io/node-macs", "02:00:00:00:00:01")
	w.create(l)
	w.allocator()
	holder := balancer("holder")
	w.create(holder)
	w.has(holder, "192.0.2.1")

	// The Service keeps its address, and its condition reports the conflict.
	w.patch(l, `{"metadata":{"annotations":{"purelb.io/claimed-addresses":"192.0.2.1=02:00:00:00:00:07"}}}`)
	w.says(holder, "False", "AddressConflict", "192.0.2.1 is also an address of another machine, 02:00:00:00:00:07, as node node-1 reports", "purelb.io/re-evaluate")
	w.hasEvent(holder, "AddressConflict", "02:00:00:00:00:07")
	w.has(holder, "192.0.2.1")

	// No other Service gets the address. Its holder gives it up on request.
	w.patch(holder, `{"metadata":{"annotations":{"purelb.io/re-evaluate":"true"}}}`)
	w.has(holder, "192.0.2.2")
	w.says(holder, "True", "Allocated")
	asking, waiting := balancer("asking", annotated(service.AnnotationAddresses, "192.0.2.1")), balancer("waiting")
	w.create(asking)
	w.says(asking, "False", "AddressReserved", "192.0.2.1", "02:00:00:00:00:07")
	w.create(waiting)
	w.says(waiting, "False", "Exhausted")
	w.remove(asking)

	// The report ends, and so does the quarantine.
	w.patch(l, `{"metadata":{"annotations":{"purelb.io/claimed-addresses":null}}}`)
	w.has(waiting, "192.0.2.1")
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
	w.soon(func() error {
		if p := fetch(w, six).Spec.ExternalTrafficPolicy; p != "Cluster" {
			return fmt.Errorf("the policy is %s", p)
		}
		return nil
	})
	w.hasEvent(six, "LocalOverride", "2001:db8:6::1")
	if p := fetch(w, four).Spec.ExternalTrafficPolicy; p != "Local" {
		t.Errorf("the policy of an address in no node's subnet is %s", p)
	}
}

func TestEditedStatusIsCorrected(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"))
	w.allocator()
	a, b := balancer("a"), balancer("b")
	w.create(a)
	w.has(a, "192.0.2.1")
	w.create(b)
	w.has(b, "192.0.2.2")
	w.patchStatus(b, `{"status":{"loadBalancer":{"ingress":null}}}`)
	w.has(b, "192.0.2.2")
	w.patchStatus(b, `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`)
	w.has(b, "192.0.2.2")
	w.patchStatus(b, `{"status":{"conditions":[]},"metadata":{"annotations":{"purelb.io/allocated-from":null,"purelb.io/pool-type":"remote"}}}`)
	w.says(b, "True", "Allocated")
	w.annotation(b, service.AnnotationAllocatedFrom, "default")
	w.has(a, "192.0.2.1")
}

func TestConcurrentWritersLoseNoAddress(t *testing.T) {
	w := newWorld(t)
	w.create(w.local("default", "192.0.2.0/26", "192.0.2.0/26"))
	r := w.allocator()
	const n = 20
	stop := make(chan struct{})
	storm := make(chan error, 1)
	go func() {
		var err error
		for i := 0; err == nil; i++ {
			select {
			case <-stop:
				storm <- nil
				return
			default:
			}
			svc := named("default", fmt.Sprintf("svc-%02d", i%n))
			patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/i":"%d"}}}`, i))
			if err = w.client.Patch(context.Background(), svc, patch); apierrors.IsNotFound(err) {
				err = nil
			}
		}
		storm <- err
	}()
	for i := range n {
		w.create(balancer(fmt.Sprintf("svc-%02d", i)))
	}
	w.settled(n)
	close(stop)
	must(t, <-storm)
	w.exclusive()
	r.counts(n, "purelb_address_pool_addresses_in_use")
}

func TestDoubledAddressStaysWithBothServices(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"))
	given := func(name, key string) *corev1.Service {
		svc := balancer(name, annotated(service.AnnotationAllocatedBy, service.Brand), annotated(service.AnnotationAllocatedFrom, "default"))
		if key != "" {
			svc.Annotations[service.AnnotationSharing] = key
		}
		w.create(svc)
		w.patchStatus(svc, `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`)
		return svc
	}
	first := given("a-first", "")
	second := given("b-second", "")
	w.allocator()
	w.says(first, "True", "Allocated")
	w.says(second, "False", "AddressConflict", "192.0.2.1", "default/a-first")
	w.hasEvent(second, "AddressConflict", "192.0.2.1", "default/a-first")
	w.has(second, "192.0.2.1")
	// The second Service still holds the address: it is not free when the first Service is
	// deleted.
	w.remove(first)
	w.says(second, "True", "Allocated")
	next := balancer("next")
	w.create(next)
	w.has(next, "192.0.2.2")
	w.has(second, "192.0.2.1")
}

func TestSharingOfOlderReleasesIsKept(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"))
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
	next := balancer("next")
	w.create(next)
	w.has(next, "192.0.2.2")
}

func TestAllocatorRestartsDoubleNoAddress(t *testing.T) {
	w := newWorld(t)
	w.create(w.local("default", "10.64.0.0/22", "10.64.0.0/22", "2001:db8::/118", "2001:db8::/64"))
	r := w.allocator()
	const n = 200
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.each(n, func(i int) error {
			return w.client.Create(context.Background(), balancer(fmt.Sprintf("svc-%03d", i), dualStack("RequireDualStack")))
		})
	}()
	for range 2 {
		w.within(time.Minute, func() error {
			if len(w.services()) < n/4 {
				return errNotYet
			}
			return nil
		})
		r.stop()
		r = w.allocator()
	}
	<-done
	w.settled(n)
	w.exclusive()
	for _, svc := range w.services() {
		if a := service.Ingress(&svc); len(a) != 2 || !a[0].Is4() || !a[1].Is6() {
			t.Errorf("%s has %v", svc.Name, a)
		}
	}
	highest := netip.MustParseAddr("10.64.0.201")
	for _, svc := range w.services() {
		if a := service.Ingress(&svc)[0]; highest.Less(a) {
			t.Errorf("%s has %s, as if addresses below it had leaked", svc.Name, a)
		}
	}
}
