package allocate_test

import (
	"context"
	"fmt"
	"math/bits"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/internal/allocate"
	"purelb.io/purelb/internal/service"
)

// The conditions of Services that another controller touches, as docs/refusals.md quotes
// them.
const (
	saidClaimed = `Assigned 192.0.2.1 from pool default; another controller gave 192.0.2.1 to default/theirs too; ` +
		`take it out of that controller's pools, or set the annotation purelb.io/re-evaluate: "true" to get another address`
	saidStranded = `Assigned 203.0.113.5; no node announces 203.0.113.5, because it is in no ServiceGroup and in no network of a node; ` +
		`add a range that contains it, or set the annotation purelb.io/re-evaluate: "true" to get another address`
	saidNotAdopted = `PureLB cannot adopt this Service: 203.0.113.5 is in no ServiceGroup that is in use; add a range that contains it`
	saidContested  = `Assigned 192.0.2.1 from pool default; another controller (field manager "other-controller") keeps changing the status of this Service, ` +
		`and PureLB restores it ever more slowly; set spec.loadBalancerClass so that one of the two controllers serves the Service, ` +
		`or have that controller leave it alone`
	saidPolicyLeft = `Assigned 192.0.2.1 from pool default; externalTrafficPolicy is Local although the node that has the address takes all its traffic: ` +
		`PureLB set it to Cluster once and does not do so again; set it to Cluster in the manifest, or set the annotation purelb.io/allow-local`
)

// gives makes another controller write these addresses into the status of svc.
func (w *world) gives(svc *corev1.Service, ips ...string) {
	w.Helper()
	must(w, w.otherWrites(svc, ips...))
}

func (w *world) otherWrites(svc *corev1.Service, ips ...string) error {
	ingress := "null"
	if len(ips) > 0 {
		ingress = `[{"ip":"` + strings.Join(ips, `"},{"ip":"`) + `"}]`
	}
	patch := fmt.Appendf(nil, `{"status":{"loadBalancer":{"ingress":%s}}}`, ingress)
	return w.client.Status().Patch(context.Background(), svc, client.RawPatch("application/merge-patch+json", patch),
		&client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{FieldManager: "other-controller"}})
}

// bare waits until svc has no data of PureLB.
func (w *world) bare(svc *corev1.Service) {
	w.Helper()
	w.soon(func() error {
		fetch(w, svc)
		if len(svc.Status.Conditions) > 0 || svc.Annotations[service.AnnotationAllocatedBy] != "" || svc.Annotations[service.AnnotationAllocatedAddresses] != "" {
			return fmt.Errorf("%s has %v and %v", svc.Name, svc.Annotations, svc.Status.Conditions)
		}
		return nil
	})
}

func TestAddressOfAFormerControllerIsNotTaken(t *testing.T) {
	w := idleWorld(t)
	back := balancer("back")
	w.create(back)
	w.gives(back, "203.0.113.77")
	w.allocator()
	w.allocate(balancer("ours"), "192.0.2.1")
	w.bare(back)
	w.gives(back)
	w.has(back, "192.0.2.2")
	w.annotation(back, service.AnnotationAllocatedFrom, "default")
	w.annotation(back, service.AnnotationAllocatedAddresses, "192.0.2.2")
}

func TestLeftoversAreRemovedFromForeignServices(t *testing.T) {
	w := idleWorld(t)
	theirs := balancer("theirs", annotated(service.AnnotationAllocatedBy, service.Brand), annotated(service.AnnotationPoolType, "remote"),
		annotated("example.com/keep", "this"), ofClass("example.com/lb"))
	replaced := balancer("replaced", annotated(service.AnnotationAllocatedBy, service.Brand), annotated(service.AnnotationAllocatedAddresses, "192.0.2.9"))
	w.create(theirs, replaced)
	w.gives(theirs, "203.0.113.78")
	w.gives(replaced, "203.0.113.79")
	w.allocator()
	w.bare(theirs)
	w.bare(replaced)
	if a := addressesOf(theirs) + " " + addressesOf(replaced); a != "203.0.113.78 203.0.113.79" || theirs.Annotations["example.com/keep"] != "this" {
		t.Errorf("the addresses are %s, the annotations %v", a, theirs.Annotations)
	}
}

func TestDefaultAnnouncerChangeKeepsAddresses(t *testing.T) {
	w, r := smallWorld(t)
	kept, lost := balancer("kept"), balancer("lost")
	w.allocate(kept, "192.0.2.1")
	w.allocate(lost, "192.0.2.2")
	r.stop()
	w.allocator(func(o *allocate.Options) { o.Rules.ByDefault = false })
	w.gives(lost, "203.0.113.7")
	w.bare(lost)
	w.has(lost, "203.0.113.7")
	w.has(kept, "192.0.2.1")
	w.annotation(kept, service.AnnotationAllocatedBy, service.Brand)
	w.gives(kept)
	w.bare(kept)
	w.has(kept, "")
}

func TestServiceOfEarlierVersionKeepsItsAddress(t *testing.T) {
	w := idleWorld(t)
	svc := balancer("svc", annotated(service.AnnotationAllocatedBy, service.Brand), annotated(service.AnnotationAllocatedFrom, "default"))
	w.create(svc)
	w.patchStatus(svc, `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.2","ipMode":"VIP"}]},"conditions":[{"type":"purelb.io/Allocated","status":"True",
		"reason":"Allocated","message":"Assigned 192.0.2.2 from pool default","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	w.allocator()
	w.soon(func() error {
		if list := fetch(w, svc).Annotations[service.AnnotationAllocatedAddresses]; list != "192.0.2.2" || addressesOf(svc) != list {
			return fmt.Errorf("the Service has %q, but the list is %q", addressesOf(svc), list)
		}
		return nil
	})
}

func TestRestoredServiceGetsItsAddressBack(t *testing.T) {
	w := newWorld(t)
	w.create(w.remote("default", "192.0.2.1-192.0.2.9", "192.0.2.0/24"))
	// A backup has annotations but no status.
	mine := balancer("mine", annotated(service.AnnotationAllocatedBy, service.Brand), annotated(service.AnnotationAllocatedAddresses, "192.0.2.2"))
	copied := balancer("copied", annotated(service.AnnotationAllocatedBy, service.Brand), annotated(service.AnnotationAllocatedAddresses, "192.0.2.2"))
	strange := balancer("strange", annotated(service.AnnotationAllocatedBy, service.Brand), annotated(service.AnnotationAllocatedAddresses, "203.0.113.9"))
	w.create(mine)
	w.allocator()
	w.has(mine, "192.0.2.2")
	w.allocate(copied, "192.0.2.1")
	w.allocate(strange, "192.0.2.3")
}

func TestContestedStatusIsRestoredWithBackoff(t *testing.T) {
	w, r := smallWorld(t)
	svc := w.allocate(balancer("svc"), "192.0.2.1")
	// The other controller overwrites the status right after each write of PureLB.
	began := time.Now()
	w.within(time.Minute, func() error {
		if addressesOf(fetch(w, svc)) != "203.0.113.9" {
			w.gives(svc, "203.0.113.9")
		}
		return condition(svc.Status.Conditions, service.ConditionAllocated, "False", "StatusContested", []string{saidContested})
	})
	// Two restorations follow at once. The next ones follow after 1 s, 2 s, 4 s, and so on.
	n := int(r.counter("purelb_allocator_service_status_restored_total"))
	if most := 3 + bits.Len(uint(time.Since(began).Seconds())); n > most {
		t.Errorf("restored %d times, want at most %d", n, most)
	}
	w.says(svc, "False", "StatusContested", saidContested)
	w.hasEvent(svc, "StatusContested", "other-controller")
	w.hasEvent(svc, "IPAllocated", "192.0.2.1")
	var assigned int
	for _, e := range w.events(svc) {
		if strings.Contains(e.Message, "Assigned") {
			assigned++
		}
	}
	if assigned != 1 {
		t.Errorf("%d events say that the address was assigned, want 1", assigned)
	}
	w.has(svc, "192.0.2.1") // the other controller has stopped
}

func TestForeignStatusEntriesStay(t *testing.T) {
	w, _ := smallWorld(t)
	svc := w.allocate(balancer("svc"), "192.0.2.1")
	w.patchStatus(svc, `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1","ipMode":"VIP","ports":[{"port":80,"protocol":"TCP"}]},{"hostname":"lb.example.com"}]}}}`)
	version := fetch(w, svc).ResourceVersion
	w.allocate(balancer("next"), "192.0.2.2")
	if fetch(w, svc).ResourceVersion != version {
		t.Errorf("the status was written again: %v", svc.Status.LoadBalancer)
	}
}

func TestAddressOfTwoControllersIsReported(t *testing.T) {
	w, _ := smallWorld(t)
	ours, theirs := balancer("ours"), balancer("theirs", ofClass("example.com/lb"))
	w.allocate(ours, "192.0.2.1")
	w.create(theirs)
	w.gives(theirs, "192.0.2.1")
	w.says(ours, "False", "AddressConflict", saidClaimed)
	w.hasEvent(ours, "AddressConflict", "default/theirs")
	w.hasEvent(theirs, "AddressConflict", "192.0.2.1", "default/ours")
	w.gives(theirs, "192.0.2.100")
	w.says(ours, "True", "Allocated")
}

// denying makes the API server refuse changes of Services with the label hold.
func (w *world) denying(resource string) {
	w.Helper()
	name := "purelb-test-" + w.namespace
	fail := admissionv1.Fail
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}},
			}}}},
			Validations: []admissionv1.Validation{{Expression: "!has(object.metadata.labels) || !('hold' in object.metadata.labels)", Message: "held by the test"}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}
	w.create(policy, binding)
	w.Cleanup(func() { w.remove(binding); w.remove(policy) })
	probe := balancer("probe", labeled("hold", "1"))
	probe.Spec.Type = corev1.ServiceTypeClusterIP
	w.create(probe)
	w.soon(func() error { // the API server does not enforce the policy at once
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/now":"%d"}}}`, time.Now().UnixNano()))
		write := w.client.Patch
		if resource == "services/status" {
			write = func(ctx context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
				return w.client.Status().Patch(ctx, o, p)
			}
		}
		if err := write(context.Background(), probe, patch); err == nil {
			return fmt.Errorf("the API server does not enforce the policy yet")
		}
		return nil
	})
}

func labeled(name, value string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Labels = map[string]string{name: value} }
}

func TestRefusedWriteIsReported(t *testing.T) {
	w := newWorld(t)
	w.denying("services/status")
	w.create(w.small("default"))
	r := w.allocator()
	svc := balancer("web", labeled("hold", "1"))
	w.create(svc)
	w.hasEvent(svc, "AllocationFailed", "the API server refuses", "held by the test")
	r.counts(1, "purelb_address_pool_allocation_rejected_total", "reason=write_refused")
	w.patch(svc, `{"metadata":{"labels":{"hold":null}}}`)
	w.has(svc, "192.0.2.1")
}

func TestRefusedPolicyResetDoesNotDelayTheAddress(t *testing.T) {
	w := newWorld(t)
	w.denying("services")
	w.create(w.small("default"))
	w.allocator()
	svc := w.allocate(balancer("web", labeled("hold", "1"), localPolicy), "192.0.2.1")
	w.hasEvent(svc, "AllocationFailed", "held by the test")
	w.says(svc, "True", "Allocated", "externalTrafficPolicy is Local")
}

func TestPolicySetBackByAToolIsLeftAlone(t *testing.T) {
	w, _ := smallWorld(t)
	svc := w.allocate(balancer("web", localPolicy), "192.0.2.1")
	w.hasPolicy(svc, "Cluster")
	w.patch(svc, `{"spec":{"externalTrafficPolicy":"Local"}}`)
	w.says(svc, "True", "Allocated", saidPolicyLeft)
	w.hasPolicy(svc, "Local")
	w.patch(svc, `{"spec":{"externalTrafficPolicy":"Cluster"}}`)
	w.soon(func() error {
		if c := fetch(w, svc).Status.Conditions; len(c) != 2 || strings.Contains(c[0].Message, "externalTrafficPolicy") {
			return fmt.Errorf("conditions: %v", c)
		}
		return nil
	})
}
