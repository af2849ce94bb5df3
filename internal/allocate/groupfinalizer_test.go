package allocate_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/allocate"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/service"
)

// edge is a group in 192.0.2.0/24 whose addresses only one neighbor gets.
func (w *world) edge(name string) *v2.ServiceGroup {
	g := w.remote(name, "192.0.2.0/24", "192.0.2.0/24")
	g.Spec.BGP = &v2.RouteAttributes{Peers: []v2.Peer{"198.51.100.1"}}
	return g
}

// edgeWorld is a world with such a group and a running allocator.
func edgeWorld(t testing.TB) (*world, *v2.ServiceGroup, *running) {
	t.Helper()
	w := newWorld(t)
	edge := w.edge("edge")
	w.create(edge)
	return w, edge, w.allocator()
}

// kept waits until g has the finalizer, or has it no longer.
func (w *world) kept(g *v2.ServiceGroup, want bool) {
	w.Helper()
	w.soon(func() error {
		if got := fetch(w, g).Finalizers; slices.Contains(got, config.GroupFinalizer) != want {
			return fmt.Errorf("%s has the finalizers %q", g.Name, got)
		}
		return nil
	})
}

// restricted compares the groups in the record of svc that name neighbors or nodes.
func (w *world) restricted(svc *corev1.Service, want string) {
	w.Helper()
	record, recorded := service.RecordOf(fetch(w, svc))
	if !recorded || record.Restricted != want {
		w.Errorf("the record is %+v, want %q as restricted", record, want)
	}
}

// ends waits until the API server has deleted g.
func (w *world) ends(g *v2.ServiceGroup) {
	w.Helper()
	w.soon(func() error {
		if err := w.client.Get(w.Context(), client.ObjectKeyFromObject(g), &v2.ServiceGroup{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s is still there: %s", g.Name, fmt.Sprint(err))
		}
		return nil
	})
}

func TestADeletedGroupThatNamesNeighborsStaysWhileServicesHaveItsAddresses(t *testing.T) {
	w := newWorld(t)
	edge, open := w.edge("edge"), w.remote("open", "203.0.113.0/24", "203.0.113.0/24")
	w.create(edge, open)
	w.allocator()
	web, late := w.allocate(balancer("web", inGroup("edge")), "192.0.2.1"), balancer("late", inGroup("edge"))
	w.allocate(balancer("free", inGroup("open")), "203.0.113.1")
	w.kept(edge, true)
	w.kept(open, false)
	w.remove(open)
	w.ends(open)

	w.remove(edge)
	w.soon(func() error {
		return condition(fetch(w, edge).Status.Conditions, v2.ConditionTerminating, metav1.ConditionTrue, "AddressesInUse", []string{"default/web", `{"spec":{"bgp":null}}`})
	})
	w.create(late)
	w.says(late, metav1.ConditionFalse, "NoUsablePool", `ServiceGroup "edge" is being deleted`)
	w.has(web, "192.0.2.1")
	w.kept(edge, true)
	w.remove(web)
	w.ends(edge)
}

// The pool shrinks, and the group is refused, before it is deleted. Its Service names it.
func TestADeletedGroupStaysForAddressesThatItHadEarlier(t *testing.T) {
	for name, spoil := range map[string]string{
		"shrunk":  `{"spec":{"remote":{"v4pools":[{"pool":"192.0.2.128/25","subnet":"192.0.2.0/24"}]}}}`,
		"refused": `{"spec":{"remote":{"v6pools":[{"pool":"2001:db8::9-2001:db8::1","subnet":"2001:db8::/64"}]}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			w, edge, _ := edgeWorld(t)
			web := w.allocate(balancer("web", inGroup("edge")), "192.0.2.1")
			w.kept(edge, true)
			w.patch(edge, "%s", spoil)
			w.remove(edge)
			w.soon(func() error {
				return condition(fetch(w, edge).Status.Conditions, v2.ConditionTerminating, metav1.ConditionTrue, "AddressesInUse", []string{"default/web"})
			})
			w.remove(web)
			w.ends(edge)
		})
	}
}

// A user renames a group. The new group has the addresses, so its own neighbors count.
func TestADeletedGroupMakesRoomForAnotherOneWithItsAddresses(t *testing.T) {
	w := newWorld(t)
	edge, renamed := w.edge("edge"), w.edge("renamed")
	w.create(edge)
	w.allocator()
	web := w.allocate(balancer("web", inGroup("edge")), "192.0.2.1")
	w.kept(edge, true)
	w.remove(edge)
	w.offer(renamed)
	w.ends(edge)
	w.has(web, "192.0.2.1")
	w.kept(renamed, true)
}

// The group and its deletion are older than the allocator, as after a restore of a backup.
func TestAnAllocatorThatStartsKeepsGroups(t *testing.T) {
	w, edge, r := edgeWorld(t)
	web := w.allocate(balancer("web", inGroup("edge")), "192.0.2.1")
	w.kept(edge, true)
	r.stop()
	w.remove(edge)
	w.allocator()
	w.soon(func() error {
		return condition(fetch(w, edge).Status.Conditions, v2.ConditionTerminating, metav1.ConditionTrue, "AddressesInUse", []string{"default/web"})
	})
	w.restricted(web, "edge")
	w.patch(edge, `{"spec":{"bgp":null}}`) // then it keeps nothing from other neighbors
	w.ends(edge)
	w.has(web, "192.0.2.1")
	w.restricted(web, "") // since before the group ended: otherwise no node would announce the address
}

func TestUninstallLeavesNoFinalizerOnGroups(t *testing.T) {
	w := newWorld(t)
	edge := w.edge("edge")
	edge.Finalizers = []string{"example.com/other"}
	w.create(edge)
	r := w.allocator()
	w.kept(edge, true)
	r.stop()
	must(t, allocate.RemoveFinalizers(t.Context(), w.client))
	if got := fetch(w, edge).Finalizers; !slices.Equal(got, []string{"example.com/other"}) {
		t.Errorf("the finalizers are %q", got)
	}
	w.patch(edge, `{"metadata":{"finalizers":null}}`)
	w.remove(edge)
}

// Another controller has the Service and its address.
func TestADeletedGroupDoesNotStayForServicesOfOthers(t *testing.T) {
	w, edge, _ := edgeWorld(t)
	web := w.allocate(balancer("web", inGroup("edge")), "192.0.2.1")
	w.kept(edge, true)
	w.annotate(web, service.AnnotationLeave, "true")
	w.remove(edge)
	w.ends(edge)
}

// A Service keeps an address that its group no longer has, and then the group names no neighbors any more.
func TestAStrayKeepsNoGroupThatNamesNobody(t *testing.T) {
	w, edge, _ := edgeWorld(t)
	web := w.allocate(balancer("web", inGroup("edge")), "192.0.2.1")
	w.kept(edge, true)
	w.patch(edge, "%s", `{"spec":{"remote":{"v4pools":[{"pool":"192.0.2.128/25","subnet":"192.0.2.0/24"}]}}}`)
	w.patch(edge, "%s", `{"spec":{"bgp":null}}`)
	w.kept(edge, false)
	w.restricted(web, "")
}
