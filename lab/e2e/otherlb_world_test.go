package e2e

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/lab/kube"
)

// otherWriter is the field manager of the other controller.
const otherWriter = "otherlb"

// writesOfOther is the annotation in which the other controller counts its writes to a Service.
const writesOfOther = "otherlb.lab/writes"

// otherSegment are addresses of the other controller in the segment of the nodes. An agent would put them on eth0,
// and its other addresses, which are in no segment, on kube-lb0.
const otherSegment = "172.30.250.220-172.30.250.221"

// isOthers reports whether an address belongs to the other controller.
func isOthers(a netip.Addr) bool {
	return netip.MustParsePrefix("172.30.250.220/31").Contains(a) || netip.MustParsePrefix("203.0.113.0/24").Contains(a)
}

// otherController is a second load balancer controller. It serves Services without a class, and announces nothing.
// It treats statuses as MetalLB's controller does: it replaces an address that is not its own, whichever program
// gave it, when it starts and after each change.
type otherController struct {
	*world
	running *following
	empty   bool                  // it has no addresses any more
	gave    map[string]netip.Addr // by the name of the Service
}

// otherController returns the second controller, which does not run yet.
func (w *world) otherController() *otherController {
	w.t.Helper()
	w.expect("statusContested")
	o := &otherController{world: w, gave: map[string]netip.Addr{}}
	w.t.Cleanup(o.stop)
	return o
}

// start runs the other controller. It returns when the controller has handled every Service.
func (o *otherController) start() {
	o.t.Helper()
	o.running = o.followServices(o.serve)
}

// stop ends the other controller, if it runs.
func (o *otherController) stop() {
	o.t.Helper()
	if o.running == nil {
		return
	}
	if err := o.running.end(); err != nil {
		o.t.Error(err)
	}
	o.running = nil
}

func (o *otherController) restart() {
	o.t.Helper()
	o.stop()
	o.start()
}

// removeAddresses restarts the other controller without addresses. It then clears the statuses of all its Services.
func (o *otherController) removeAddresses() {
	o.t.Helper()
	o.stop()
	o.empty = true
	o.start()
}

// serve gives the status of a Service the address that the other controller wants.
func (o *otherController) serve(event watch.EventType, svc *corev1.Service) {
	if event == watch.Deleted || svc.Spec.Type != corev1.ServiceTypeLoadBalancer || svc.Spec.LoadBalancerClass != nil {
		return
	}
	var want []netip.Addr
	if !o.empty {
		want = []netip.Addr{o.address(svc.Name)}
	}
	if slices.Equal(kube.Addresses(svc), want) {
		return
	}
	svc.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	for _, a := range want {
		svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: a.String()})
	}
	writes, _ := strconv.Atoi(svc.Annotations[writesOfOther])
	metav1.SetMetaDataAnnotation(&svc.ObjectMeta, writesOfOther, strconv.Itoa(writes+1))
	err := o.Status().Update(o.ctx, svc, client.FieldOwner(otherWriter))
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) { // a newer state of the Service follows
		o.t.Errorf("the other controller writes to %s: %v", svc.Name, err)
	}
}

// address returns the address of a Service: that which it has, or the lowest that no Service had.
func (o *otherController) address(service string) netip.Addr {
	if _, had := o.gave[service]; !had {
		a := netip.MustParseAddr("203.0.113.1")
		if len(o.gave) < 2 {
			a = netip.MustParseAddr("172.30.250.220")
		}
		for slices.Contains(slices.Collect(maps.Values(o.gave)), a) {
			a = a.Next()
		}
		o.gave[service] = a
	}
	return o.gave[service]
}

// stopAllocator ends the allocator until the test calls resume.
func (w *world) stopAllocator() (resume func()) {
	w.t.Helper()
	return w.allocators(0)
}

// These are the writers of Services. All of them except the test are field managers.
const (
	allocatorWriter = "purelb-allocator"
	agentWriter     = "lbnodeagent"
	testWriter      = "the test"
)

// state is one state of a Service: its time, its writer, the addresses in its status, and the
// addresses that the previous state did not have.
type state struct {
	at            time.Time
	writer        string
	shows, gained []netip.Addr
}

func (s state) String() string {
	return fmt.Sprintf("%s %s wrote %v", s.at.Format("15:04:05.000"), s.writer, s.shows)
}

// history is all states that the Services of a test have had.
type history struct {
	*world
	*following
	mu     sync.Mutex
	last   map[string]*corev1.Service
	states map[string][]state
}

// history begins to record the states of the Services.
func (w *world) history() *history {
	w.t.Helper()
	h := &history{world: w, last: map[string]*corev1.Service{}, states: map[string][]state{}}
	h.following = w.followServices(h.see)
	w.t.Cleanup(func() {
		if w.t.Failed() {
			h.tell()
		}
		if err := h.end(); err != nil {
			w.t.Error(err)
		}
	})
	return h
}

func (h *history) see(event watch.EventType, svc *corev1.Service) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if event == watch.Deleted {
		return
	}
	before := h.last[svc.Name]
	s := state{at: time.Now(), writer: writerOf(before, svc), shows: kube.Addresses(svc)}
	s.gained = slices.Clone(s.shows)
	if before != nil {
		s.gained = slices.DeleteFunc(s.gained, func(a netip.Addr) bool { return slices.Contains(kube.Addresses(before), a) })
	}
	h.last[svc.Name] = svc
	h.states[svc.Name] = append(h.states[svc.Name], s)
}

// writerOf returns the writer that changed a Service from one state to the next. The other controller
// counts its writes in an annotation. The test writes the spec and the annotations of users. Agents
// write only the announcing annotations.
func writerOf(before, after *corev1.Service) string {
	const announcing = "purelb.io/announcing-"
	changed := func(annotation string) bool { return before.Annotations[annotation] != after.Annotations[annotation] }
	switch {
	case before == nil, before.Generation != after.Generation, changed("purelb.io/service-group"), changed("purelb.io/addresses"):
		return testWriter
	case changed(writesOfOther):
		return otherWriter
	}
	onlyWho := reflect.DeepEqual(before.Status, after.Status) &&
		maps.Equal(without(before.Annotations, announcing), without(after.Annotations, announcing))
	if onlyWho {
		return agentWriter
	}
	return allocatorWriter
}

// without returns the annotations whose names do not begin with prefix.
func without(annotations map[string]string, prefix string) map[string]string {
	rest := maps.Clone(annotations)
	maps.DeleteFunc(rest, func(name, _ string) bool { return strings.HasPrefix(name, prefix) })
	return rest
}

// of returns the states of a Service by a writer.
func (h *history) of(service, writer string) (out []state) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.states[service] {
		if s.writer == writer {
			out = append(out, s)
		}
	}
	return out
}

func (h *history) tell() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(h.states)) {
		fmt.Printf("=== states of Service %s\n", name)
		for _, s := range h.states[name] {
			fmt.Println(s)
		}
	}
}

// always checks each state of a Service that has an address. It fails the test unless the state has
// exactly these addresses.
func (h *history) always(service string, want []netip.Addr) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.states[service] {
		if len(s.shows) > 0 && !equal(s.shows, want) {
			h.t.Errorf("%s, want %v in every state: %s", service, want, s)
		}
	}
}

// untouched fails the test if PureLB ever wrote to a Service.
func (h *history) untouched(service string) {
	h.t.Helper()
	for _, writer := range []string{allocatorWriter, agentWriter} {
		if writes := h.of(service, writer); len(writes) > 0 {
			h.t.Errorf("%s is another controller's, and the %s wrote to it: %v", service, writer, writes)
		}
	}
	for _, m := range h.service(service).ManagedFields {
		if m.Manager != otherWriter && m.Manager != kube.Owner && !strings.HasPrefix(m.Manager, "kubectl") {
			h.t.Errorf("%s is another controller's, and %s has fields of it: %s", service, m.Manager, m.FieldsV1.GetRawString())
		}
	}
}

// restrained fails the test if the allocator wrote to a Service more often than limit, or wrote an
// address of the other controller.
func (h *history) restrained(service string, limit int) {
	h.t.Helper()
	writes := h.of(service, allocatorWriter)
	h.t.Logf("%s: %d writes by the allocator, %d by agents, %d by the other controller", service,
		len(writes), len(h.of(service, agentWriter)), len(h.of(service, otherWriter)))
	if len(writes) > limit {
		h.t.Errorf("%s: the allocator wrote %d times, want at most %d", service, len(writes), limit)
	}
	for _, s := range writes {
		if slices.ContainsFunc(s.gained, isOthers) {
			h.t.Errorf("%s: the allocator wrote an address of the other controller: %s", service, s)
		}
	}
}

// condition returns the condition Allocated of a Service.
func (w *world) condition(service string) metav1.Condition {
	w.t.Helper()
	if c := meta.FindStatusCondition(w.service(service).Status.Conditions, "purelb.io/Allocated"); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// warned waits for a Warning of a Service with this reason and text.
func (w *world) warned(service, reason, text string) {
	w.t.Helper()
	w.until(patience, fmt.Sprintf("a Warning %s of %s says %q", reason, service, text), func() bool {
		var events corev1.EventList
		if err := w.List(w.ctx, &events, client.InNamespace(namespace)); err != nil {
			w.t.Fatal(err)
		}
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.Name == service && e.Type == corev1.EventTypeWarning && e.Reason == reason && strings.Contains(e.Message, text)
		})
	})
}
