package allocate_test

import (
	"context"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"purelb.io/purelb/internal/allocate"
	"purelb.io/purelb/internal/service"
)

// eager makes an allocator take a free Lease soon.
func eager(identity string) func(*allocate.Options) {
	return func(o *allocate.Options) { o.Identity, o.RetryPeriod = identity, 500*time.Millisecond }
}

// ends waits for the end of an allocator and returns its error.
func (r *running) ends() error {
	r.world.Helper()
	var err error
	select {
	case err = <-r.done:
		r.done = nil
	case <-time.After(patience):
		r.world.Fatal("the allocator does not end")
	}
	return err
}

// leaderLease returns the Lease of the leader election.
func (w *world) leaderLease() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "purelb-allocator"}}
}

// waitsFor waits until a proxy holds a request back.
func (w *world) waitsFor(held <-chan struct{}) {
	w.Helper()
	select {
	case <-held:
	case <-time.After(patience):
		w.Fatal("the request does not come")
	}
}

// cutOff has two Services and one address. It ends the allocator while a write that gives the address to
// the younger Service is on its way, in a proxy. Then it edits the older Service, so that this one may
// have the address too.
func (w *world) cutOff() (older, younger *corev1.Service, former *proxy) {
	w.Helper()
	w.create(w.local("default", "192.0.2.1-192.0.2.1", "192.0.2.0/24"))
	var away atomic.Bool
	behind, former := w.proxied(func(req *http.Request, _ string) proxyAction {
		switch {
		case away.Load():
			return cut
		case allocates(req, "younger"):
			return hold
		}
		return pass
	})
	first := behind.allocator(eager("pod"))
	older, younger = balancer("older", inGroup("missing")), balancer("younger")
	w.create(older)
	w.says(older, "False", "UnknownPool")
	w.create(younger)
	w.waitsFor(former.held)
	away.Store(true)
	w.Cleanup(func() {
		first.cancel()
		_ = first.ends()
	})
	w.patch(older, `{"metadata":{"annotations":{"purelb.io/service-group":null}}}`)
	return older, younger, former
}

// The write takes effect while the next allocator waits.
func TestTakeoverSeesALateWriteOfTheFormerLeader(t *testing.T) {
	w := newWorld(t)
	older, younger, former := w.cutOff()
	second := w.allocator(eager("pod"))
	w.until(func() bool { return strings.Contains(second.log.String(), "waitingForEarlierWrites") })
	former.letGo()
	if status := <-former.late; status != http.StatusOK {
		t.Fatalf("the late write is answered with %d", status)
	}
	w.says(older, "False", "Exhausted")
	w.has(younger, "192.0.2.1")
}

// The proxy delivers the write long after the takeover. The API server refuses it, because the next
// leader wrote the Service. If that leader did not write, both Services would show the address: the rows
// of the twins in badinput_services_test.go.
func TestAWriteAfterTheWaitFails(t *testing.T) {
	w := newWorld(t)
	older, younger, former := w.cutOff()
	w.allocator(eager("pod"))
	w.has(older, "192.0.2.1")
	w.says(younger, "False", "Exhausted")
	former.letGo()
	if status := <-former.late; status != http.StatusConflict {
		t.Errorf("the late write is answered with %d, want %d", status, http.StatusConflict)
	}
}

// The API server calls a webhook that does not answer in time, and that it ignores then. The write
// waits for the webhook for longer than its timeout.
func TestAPIServerWritesNothingAfterTheTimeout(t *testing.T) {
	w := newWorld(t)
	svc := balancer("web")
	w.create(svc)
	called := make(chan struct{}, 100)
	hook := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		called <- struct{}{}
		time.Sleep(1500 * time.Millisecond)
	}))
	w.Cleanup(hook.Close)
	url, ignore, none := hook.URL, admissionv1.Ignore, admissionv1.SideEffectClassNone
	config := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "slow"}, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "slow.example.com", FailurePolicy: &ignore, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		ClientConfig: admissionv1.WebhookClientConfig{
			URL: &url, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}),
		},
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"services/status"}},
		}},
	}}}
	w.create(config)
	w.Cleanup(func() { must(w, w.client.Delete(context.Background(), config)) })
	core, err := typedcorev1.NewForConfig(w.cfg)
	must(t, err)
	write := func(value string) error {
		return core.RESTClient().Patch(types.MergePatchType).Namespace("default").Resource("services").Name("web").SubResource("status").
			Param("timeout", "1s").Body([]byte(`{"metadata":{"annotations":{"example.com/value":"` + value + `"}}}`)).Do(t.Context()).Error()
	}
	// The API server does not know the webhook at once.
	w.until(func() bool { return write("before") != nil })
	<-called
	before := fetch(w, svc).ResourceVersion
	if err := write("after"); err == nil {
		t.Error("the write succeeds")
	}
	time.Sleep(2 * time.Second) // the webhook has answered by then, and a late write would be there
	if after := fetch(w, svc).ResourceVersion; after != before {
		t.Errorf("the write takes effect after its timeout: the version changes from %s to %s", before, after)
	}
}

func TestRestartKeepsAddressesAndWritesNothing(t *testing.T) {
	for _, tt := range []struct {
		name   string
		holder string
	}{
		{"after a clean end", ""},
		{"after a leader that was cut off", "other"},
		{"after it was killed", "second"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.create(w.local("default", "192.0.2.0/28", "192.0.2.0/28", "2001:db8::/120", "2001:db8::/64"),
				w.remote("far", "198.51.100.0/24", "198.51.100.0/24"), w.lease("n1", "192.0.2.0/28"))
			first := w.allocator()
			w.create(balancer("a"), balancer("b", dualStack("RequireDualStack")), balancer("c", inGroup("far"), localPolicy),
				balancer("d", annotated(service.AnnotationSharing, "k")), balancer("e", localPolicy),
				balancer("f", annotated(service.AnnotationAddresses, "192.0.2.9")))
			w.settled(6)
			w.create(balancer("refused", inGroup("blue")))
			w.says(named("default", "refused"), "False", "UnknownPool")
			first.stop()
			if tt.holder != "" {
				w.patch(w.leaderLease(), `{"spec":{"holderIdentity":%q,"leaseDurationSeconds":1}}`, tt.holder)
			}
			before := w.versions()
			through, p := w.proxied(func(*http.Request, string) proxyAction { return pass })
			through.allocator(eager("second"))
			last := balancer("last") // the allocator serves it after all Services that existed before
			w.allocate(last, "192.0.2.5")
			for _, write := range p.seen() {
				if strings.Contains(write, "/services/") && !strings.Contains(write, "/services/last") {
					t.Errorf("the allocator wrote: %s", write)
				}
			}
			after := w.versions()
			delete(after, "Service default/last")
			if !maps.Equal(before, after) {
				t.Errorf("the restart changed the versions from %v to %v", before, after)
			}
		})
	}
}
