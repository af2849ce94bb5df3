package allocate_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/netboxtest"
)

// bound waits until svc has the finalizer, or has it no longer.
func (w *world) bound(svc *corev1.Service, want bool) {
	w.Helper()
	w.soon(func() error {
		if got := fetch(w, svc).Finalizers; slices.Contains(got, service.Finalizer) != want {
			return fmt.Errorf("%s has the finalizers %q", svc.Name, got)
		}
		return nil
	})
}

// vanishes waits until the API server has deleted svc.
func (w *world) vanishes(svc *corev1.Service) {
	w.Helper()
	w.within(asksAgain, func() error {
		err := w.client.Get(w.Context(), client.ObjectKeyFromObject(svc), &corev1.Service{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s is still there: %s", svc.Name, fmt.Sprint(err))
		}
		return nil
	})
}

// publicWorld is a world with a NetBox, and a group public of its addresses.
func publicWorld(t testing.TB) (*world, *box) {
	t.Helper()
	w := newWorld(t)
	b := newBox(w)
	b.token(netboxtest.AdminToken)
	b.prefixGroup("public", "203.0.113.0/24")
	return w, b
}

// key returns the key of the claim of svc for an IPv4 address of a group.
func (w *world) key(svc *corev1.Service, group string) string {
	ns := &corev1.Namespace{}
	must(w, w.client.Get(w.Context(), client.ObjectKey{Name: "kube-system"}, ns))
	return ipam.KeyOf(string(ns.UID), ipam.Claim{Group: group, Service: svc.Namespace + "/" + svc.Name, Family: addr.V4})
}

func TestOnlyServicesOfBackedGroupsHaveTheFinalizer(t *testing.T) {
	w, b := publicWorld(t)
	w.create(w.local("default", "198.51.100.0/24", "198.51.100.0/24"))
	w.allocator()
	near := w.allocate(balancer("near"), "198.51.100.1")
	web := w.allocate(balancer("web", inGroup("public")), "203.0.113.1")
	retyped := w.allocate(balancer("retyped", inGroup("public")), "203.0.113.2")
	w.bound(web, true)
	w.bound(near, false)

	w.patch(web, `{"metadata":{"annotations":{"purelb.io/service-group":"default","purelb.io/re-evaluate":"true"}}}`)
	w.has(web, "198.51.100.2")
	w.bound(web, false)
	w.patch(retyped, `{"spec":{"type":"ClusterIP"}}`)
	w.bound(retyped, false)
	b.active()
}

// A user replaces the whole object by a manifest, which has neither PureLB's annotations nor its finalizer.
func TestAReplacedServiceKeepsItsAddress(t *testing.T) {
	w, b := publicWorld(t)
	w.create(w.small("default"))
	w.allocator()
	for group, address := range map[string]string{"default": "192.0.2.1", "public": "203.0.113.1"} {
		name := "of-" + group
		w.allocate(balancer(name, inGroup(group)), address)
		must(t, w.client.Update(t.Context(), balancer(name, inGroup(group))))
		svc := named("default", name)
		w.annotated(svc, service.AnnotationAllocatedBy, service.Brand, service.AnnotationAllocatedAddresses, address)
		w.bound(svc, group == "public")
		w.says(svc, metav1.ConditionTrue, ipam.ReasonAllocated)
		w.has(svc, address)
	}
	b.active("203.0.113.1/24 default/of-public")
}

// The claim and the deletion come before any allocator has written the address into the status.
func TestNoAllocatorLosesNoRecord(t *testing.T) {
	w, b := publicWorld(t)
	r := w.allocator()
	shown := w.allocate(balancer("shown", inGroup("public")), "203.0.113.1")
	r.stop()
	killed := balancer("killed", inGroup("public"), func(svc *corev1.Service) { svc.Finalizers = []string{service.Finalizer} })
	w.create(killed)
	b.AddAddress(netboxtest.Address{Prefix: netip.MustParsePrefix("203.0.113.2/24"), Status: "active", Fields: map[string]any{config.NetBoxField: w.key(killed, "public")}})
	for _, svc := range []*corev1.Service{shown, killed} {
		must(t, w.client.Delete(t.Context(), svc))
	}
	w.bound(shown, true)

	w.allocator()
	w.vanishes(shown)
	w.vanishes(killed)
	b.active()
}

func TestDeletionWaitsForNetBoxAndSaysSo(t *testing.T) {
	w, b := publicWorld(t)
	w.allocator()
	web := w.allocate(balancer("web", inGroup("public")), "203.0.113.1")
	b.SetFault(netboxtest.FailBefore, func(r *http.Request) bool { return r.Method == http.MethodDelete })
	must(t, w.client.Delete(t.Context(), web))
	w.says(web, metav1.ConditionFalse, "Released", "go back to the IPAM system")
	w.has(web, "")
	w.within(asksAgain, func() error {
		for _, e := range w.events(web) {
			if e.Reason == "ReleasePending" && strings.Contains(e.Message, `ServiceGroup "public": `) && strings.Contains(e.Message, "/metadata/finalizers") {
				return nil
			}
		}
		return fmt.Errorf("no event says why the Service stays")
	})
	b.SetFault(netboxtest.None, nil)
	w.vanishes(web)
	b.active()
}

// Two Services share an address. The last one has it released.
func TestSharedAddressIsReleasedByTheLast(t *testing.T) {
	w, b := publicWorld(t)
	w.allocator()
	key := func(svc *corev1.Service) { svc.Annotations[service.AnnotationSharing] = "dns" }
	port := func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 81 }
	one := w.allocate(balancer("one", inGroup("public"), key), "203.0.113.1")
	other := w.allocate(balancer("other", inGroup("public"), key, port), "203.0.113.1")
	must(t, w.client.Delete(t.Context(), one))
	w.vanishes(one)
	w.has(other, "203.0.113.1")
	b.active("203.0.113.1/24 " + other.Namespace + "/shared:dns")
	must(t, w.client.Delete(t.Context(), other))
	w.vanishes(other)
	b.active()
}

func TestUninstallLeavesNoFinalizer(t *testing.T) {
	w, _ := publicWorld(t)
	r := w.allocator()
	web := w.allocate(balancer("web", inGroup("public"), func(svc *corev1.Service) { svc.Finalizers = []string{"example.com/other"} }), "203.0.113.1")
	r.stop()
	must(t, allocate.RemoveFinalizers(t.Context(), w.client))
	if got := fetch(w, web).Finalizers; !slices.Equal(got, []string{"example.com/other"}) {
		t.Errorf("the finalizers are %q", got)
	}
	w.patch(web, `{"metadata":{"finalizers":null}}`)
	w.remove(web)
}
