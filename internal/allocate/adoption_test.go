package allocate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/allocate"
	"purelb.io/purelb/internal/service"
)

// theirs creates a Service without a class that another controller serves at ip.
func (w *world) theirs(name, ip string) *corev1.Service {
	svc := balancer(name)
	w.create(svc)
	w.gives(svc, ip)
	return svc
}

// annotate sets an annotation of svc.
func (w *world) annotate(svc *corev1.Service, name, value string) {
	w.Helper()
	w.patch(svc, `{"metadata":{"annotations":{%q:%q}}}`, name, value)
}

// The former controller served the only address, and a Service waits for it.
func TestAServiceThatMovesInKeepsItsAddressBesideAWaiter(t *testing.T) {
	for name, move := range map[string]func(*world, *corev1.Service){
		"adopted": func(w *world, svc *corev1.Service) { w.annotate(svc, service.AnnotationAdopt, "true") },
		"branded": func(w *world, svc *corev1.Service) { w.annotate(svc, service.AnnotationAllocatedBy, service.Brand) },
		"asks for its address, and is cleared": func(w *world, svc *corev1.Service) {
			w.annotate(svc, service.AnnotationAddresses, "192.0.2.1")
			w.gives(svc)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.create(w.remote("default", "192.0.2.1-192.0.2.1", "192.0.2.0/24"))
			theirs := w.theirs("theirs", "192.0.2.1")
			w.allocator()
			waiter := balancer("waiter")
			w.create(waiter)
			w.says(waiter, "False", "Exhausted")
			move(w, theirs)
			w.says(theirs, "True", "Allocated", "192.0.2.1")
			w.has(theirs, "192.0.2.1")
			w.says(waiter, "False", "Exhausted")
			w.has(waiter, "")
		})
	}
}

func TestAnAdoptedServiceKeepsItsStatus(t *testing.T) {
	w := idleWorld(t)
	theirs := w.theirs("theirs", "192.0.2.2")
	w.patchStatus(theirs, `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.2","ipMode":"VIP","ports":[{"port":80,"protocol":"TCP"}]},{"hostname":"lb.example.com"}]}}}`)
	before := fetch(w, theirs).Status.LoadBalancer
	r := w.allocator(func(o *allocate.Options) { o.Rules.ByDefault = false })
	w.annotate(theirs, service.AnnotationAdopt, "true")
	w.says(theirs, "True", "Allocated", "192.0.2.2")
	if diff := cmp.Diff(theirs.Status.LoadBalancer.String(), before.String()); diff != "" {
		t.Errorf("the status (+want -got):\n%s", diff)
	}
	w.gives(theirs) // the former controller cleans up
	w.has(theirs, "192.0.2.2")
	r.stop()
	w.allocator(func(o *allocate.Options) { o.Rules.ByDefault = false })
	w.gives(theirs)
	w.has(theirs, "192.0.2.2")

	w.annotate(theirs, service.AnnotationLeave, "true")
	w.bare(theirs)
	w.has(theirs, "192.0.2.2")
	w.gives(theirs, "203.0.113.5")
	w.has(theirs, "203.0.113.5")
}

func TestAdoptionIsRefusedUntilItIsSafe(t *testing.T) {
	w := idleWorld(t)
	outside, taken := w.theirs("outside", "203.0.113.5"), balancer("taken")
	w.allocator()
	ours := w.allocate(balancer("ours"), "192.0.2.1")
	w.create(taken)
	w.has(taken, "192.0.2.2")
	w.annotate(taken, service.AnnotationLeave, "true")
	w.bare(taken)
	w.gives(taken, "192.0.2.1")

	w.annotate(outside, service.AnnotationAdopt, "true")
	w.says(outside, "False", "AddressOutsidePools", saidNotAdopted)
	w.hasEvent(outside, "NotAdopted", "203.0.113.5")
	w.patch(taken, `{"metadata":{"annotations":{"purelb.io/leave":null,"purelb.io/adopt":"true"}}}`)
	w.says(taken, "False", "AddressInUse", "held by default/ours")
	w.has(ours, "192.0.2.1")

	w.create(w.remote("more", "203.0.113.1-203.0.113.9", "203.0.113.0/24"))
	w.says(outside, "True", "Allocated", "203.0.113.5")
	w.remove(ours)
	w.says(taken, "True", "Allocated", "192.0.2.1")
}

// PureLB 0.17 wrote a brand and the group, and served such Services whatever the default announcer was.
func TestServicesOfTheFirstVersionsStayWithAnotherDefaultAnnouncer(t *testing.T) {
	w := idleWorld(t)
	mine := balancer("mine", annotated(service.AnnotationAllocatedBy, service.Brand), annotated(service.AnnotationAllocatedFrom, "default"))
	strange := balancer("strange", annotated(service.AnnotationAllocatedBy, service.Brand), annotated(service.AnnotationAllocatedFrom, "default"))
	w.create(mine, strange)
	w.gives(mine, "192.0.2.1")
	w.gives(strange, "203.0.113.1")
	w.allocator(func(o *allocate.Options) { o.Rules.ByDefault = false })
	w.says(mine, "True", "Allocated", "192.0.2.1")
	w.has(mine, "192.0.2.1")
	w.bare(strange)
}

func TestAServiceThatIsLeftToAnotherSaysSo(t *testing.T) {
	w := idleWorld(t)
	before, later := w.theirs("before", "203.0.113.5"), balancer("later", annotated(service.AnnotationLeave, "true"))
	w.create(later)
	w.gives(later, "203.0.113.6")
	w.allocator()
	w.allocate(balancer("ours"), "192.0.2.1")
	w.patch(later, `{"metadata":{"annotations":null}}`)
	w.hasEvent(later, "LeftToAnother", service.ReasonGiven, service.AnnotationAdopt)
	for _, e := range w.events(before) { // a restart tells nothing again
		t.Errorf("event %s: %s", e.Reason, e.Message)
	}
}

func TestAnnotationsThatMeanNothingAreNamedOnce(t *testing.T) {
	w, r := smallWorld(t)
	svc := w.allocate(balancer("svc", annotated("metallb.io/loadBalancerIPs", "192.0.2.2")), "192.0.2.1")
	w.says(svc, "True", "Allocated", "metallb.io/loadBalancerIPs is not read; use purelb.io/addresses")
	w.hasEvent(svc, "ConfigurationWarning", "metallb.io/loadBalancerIPs is not read")
	w.annotate(svc, "purelb.io/adresses", "192.0.2.2")
	w.says(svc, "True", "Allocated", "did you mean purelb.io/addresses?", "metallb.io/loadBalancerIPs")
	w.hasEvent(svc, "ConfigurationWarning", "did you mean purelb.io/addresses?")
	r.stop()
	w.allocator(func(o *allocate.Options) { o.Rules.Others = []string{"metallb"} })
	w.says(svc, "True", "Allocated", "did you mean purelb.io/addresses?")
	w.has(svc, "192.0.2.2")
	told := map[string]int{}
	for _, e := range w.events(svc) {
		if e.Reason == "ConfigurationWarning" {
			told[e.Message] += int(max(e.Count, 1))
		}
	}
	for message, n := range told {
		if n > 1 || len(told) != 2 {
			t.Errorf("%d times: %s", n, message)
		}
	}
}

// A Service of the first versions has an address that no group and no node has any more.
func TestAnAddressThatNobodyAnnouncesIsNoSuccess(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"), w.lease("n1", "192.0.2.0/24"))
	svc := balancer("svc", annotated(service.AnnotationAllocatedBy, service.Brand))
	w.create(svc)
	w.gives(svc, "203.0.113.5")
	w.allocator()
	w.says(svc, "False", "AddressOutsidePools", saidStranded)
	w.has(svc, "203.0.113.5")
	w.create(w.local("more", "203.0.113.1-203.0.113.9", "203.0.113.0/24"))
	w.says(svc, "True", "Allocated", "203.0.113.5 from pool more")
}
