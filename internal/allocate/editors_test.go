package allocate_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/internal/service"
)

// edits calls edit with the present version of svc again and again for d. It checks that agents
// would announce the addresses at each look, and that PureLB says at each look that they are
// allocated. It returns the number of versions that PureLB wrote.
func (w *world) edits(svc *corev1.Service, addresses string, d time.Duration, edit func(*corev1.Service) bool) (writes int) {
	w.Helper()
	version, looks, lost := "", 0, 0
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		fetch(w, svc)
		looks++
		if got := fmt.Sprint(service.OwnershipOf(svc, true).Shown); got != addresses {
			lost++
			w.Errorf("look %d: agents announce %s, want %s", looks, got, addresses)
		}
		w.says(svc, "True", "Allocated")
		if version != "" && svc.ResourceVersion != version {
			writes++
		}
		version = svc.ResourceVersion
		if !edit(svc) {
			continue
		}
		if err := w.client.Update(context.Background(), svc, client.FieldOwner("operator")); err == nil {
			version = svc.ResourceVersion
		}
	}
	if lost > 0 {
		w.Errorf("lost in %d of %d looks", lost, looks)
	}
	return writes
}

// annotated waits until svc has these annotations, in pairs of name and value. "" means that there is none.
func (w *world) annotated(svc *corev1.Service, pairs ...string) {
	w.Helper()
	w.soon(func() error {
		fetch(w, svc)
		for i := 0; i < len(pairs); i += 2 {
			if got := svc.Annotations[pairs[i]]; got != pairs[i+1] {
				return fmt.Errorf("annotation %s is %q, want %q", pairs[i], got, pairs[i+1])
			}
		}
		return nil
	})
}

// An operator owns its Service, and replaces all annotations that it did not write.
func TestAnOperatorMayReplaceAllAnnotations(t *testing.T) {
	w, _ := smallWorld(t)
	svc := w.allocate(balancer("svc"), "192.0.2.1")
	ours := func(svc *corev1.Service) bool { return svc.Annotations[service.AnnotationAllocatedBy] != "" }
	n := 0
	writes := w.edits(svc, "[192.0.2.1]", 15*time.Second, func(svc *corev1.Service) bool {
		if len(svc.Annotations) == 1 {
			return false
		}
		n++
		svc.Annotations = map[string]string{"example.com/revision": fmt.Sprint(n)}
		return true
	})
	if writes > 3 { // at once, after 10 s, and one that crossed an edit
		t.Errorf("PureLB wrote %d times in 15 s", writes)
	}
	w.hasEvent(svc, "AnnotationsReplaced", `field manager "operator"`)
	told := 0
	for _, e := range w.events(svc) {
		if e.Type != corev1.EventTypeNormal {
			t.Errorf("event %s: %s", e.Reason, e.Message)
		}
		if e.Reason == "AnnotationsReplaced" {
			told += int(max(e.Count, 1))
		}
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	w.within(time.Minute, func() error {
		if !ours(fetch(w, svc)) {
			return fmt.Errorf("the annotations are %v", svc.Annotations)
		}
		return nil
	})
}

func TestAnnotationsThatAreLostOnceComeBack(t *testing.T) {
	w, _ := smallWorld(t)
	svc := w.allocate(balancer("svc"), "192.0.2.1")
	w.patch(svc, `{"metadata":{"annotations":null}}`)
	w.annotated(svc, service.AnnotationAllocatedAddresses, "192.0.2.1", service.AnnotationAllocatedFrom, "default")
	w.has(svc, "192.0.2.1")
	for _, e := range w.events(svc) {
		if e.Reason == "AnnotationsReplaced" {
			t.Errorf("an edit of a person is told: %s", e.Message)
		}
	}
}

// A tool enforces a manifest that was exported when the Service had another address.
func TestAnExportedManifestMayBeEnforced(t *testing.T) {
	w, _ := smallWorld(t)
	svc := w.allocate(balancer("svc"), "192.0.2.1")
	old := map[string]string{
		service.AnnotationAllocatedBy: service.Brand, service.AnnotationAllocatedAddresses: "192.0.2.2",
		service.AnnotationAllocatedFrom: "default", service.AnnotationPoolType: "remote",
	}
	writes := w.edits(svc, "[192.0.2.1]", 15*time.Second, func(svc *corev1.Service) bool {
		if svc.Annotations[service.AnnotationAllocatedAddresses] == "192.0.2.2" {
			return false
		}
		svc.Annotations = old
		return true
	})
	if writes > 3 {
		t.Errorf("PureLB wrote %d times in 15 s", writes)
	}
	w.allocate(balancer("next"), "192.0.2.2")
}

func TestWrongAnnotationsArePutRight(t *testing.T) {
	w, _ := smallWorld(t)
	svc := w.allocate(balancer("svc"), "192.0.2.1")
	said := fetch(w, svc).Status.DeepCopy()
	w.patch(svc, `{"metadata":{"annotations":{"purelb.io/allocated-from":"other","purelb.io/pool-type":"remote","purelb.io/skip-ipv6-dad":"true","purelb.io/ipam-record":"192.0.2.1=https://evil/"}}}`)
	w.annotated(svc, service.AnnotationAllocatedFrom, "default", service.AnnotationPoolType, "local", service.AnnotationSkipIPv6DAD, "", service.AnnotationIPAMRecord, "")
	if diff := cmp.Diff(fetch(w, svc).Status.String(), said.String()); diff != "" {
		t.Errorf("the status (+want -got):\n%s", diff)
	}
}

// A tool enforces a manifest with the annotation that asks for a re-evaluation.
func TestAReevaluationInAManifestEndsSoon(t *testing.T) {
	w, _ := smallWorld(t)
	svc := w.allocate(balancer("svc"), "192.0.2.1")
	set := 0
	for end := time.Now().Add(6 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if fetch(w, svc).Annotations[service.AnnotationReevaluate] == "" {
			set++
			w.patch(svc, `{"metadata":{"annotations":{"purelb.io/re-evaluate":"true"}}}`)
		}
	}
	if set != 4 {
		t.Errorf("the tool set the annotation %d times, want 4: PureLB removes it three times", set)
	}
	w.says(svc, "True", "Allocated", "has had its effect")
	// Without the annotation the Service is as before, and a person may ask again.
	w.patch(svc, `{"metadata":{"annotations":{"purelb.io/re-evaluate":null}}}`)
	w.soon(func() error {
		if given, _ := service.RecordOf(fetch(w, svc)); given.Reevaluated {
			return fmt.Errorf("the record still has the re-evaluation")
		}
		return nil
	})
}

func TestRemovedAddressesOfOthersAreNamedOnce(t *testing.T) {
	w := idleWorld(t)
	svc := balancer("svc", ofClass(service.ClassV2))
	w.create(svc)
	w.gives(svc, "203.0.113.9")
	w.allocator()
	w.has(svc, "192.0.2.1")
	w.hasEvent(svc, "AddressRemoved", "203.0.113.9", `field manager "other-controller"`, service.AnnotationLeave)
}

// The program that would remove the finalizer is gone.
func TestAServiceThatDiesForEverIsNamed(t *testing.T) {
	w, _ := smallWorld(t)
	dying := w.allocate(balancer("dying", func(svc *corev1.Service) { svc.Finalizers = []string{"service.kubernetes.io/load-balancer-cleanup"} }), "192.0.2.1")
	waiter := balancer("waiter", annotated(service.AnnotationAddresses, "192.0.2.1"))
	w.create(waiter)
	w.says(waiter, "False", "AddressInUse", "in use by default/dying")
	w.remove(dying)
	const why = "it is being deleted, and the finalizer service.kubernetes.io/load-balancer-cleanup of a cloud controller manager keeps it"
	w.says(dying, "True", "Allocated", why)
	w.says(waiter, "False", "AddressInUse", "in use by default/dying", why)
	w.patch(dying, `{"metadata":{"finalizers":null}}`)
	w.has(waiter, "192.0.2.1")
}
