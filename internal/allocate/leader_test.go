package allocate_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"purelb.io/purelb/internal/allocate"
	"purelb.io/purelb/internal/kube/events"
)

func TestStandbyTakesOverWhenTheLeaderStops(t *testing.T) {
	w := idleWorld(t)
	first := w.allocator(func(o *allocate.Options) { o.Identity = "first" })
	a := w.allocate(balancer("a"), "192.0.2.1")
	second := w.allocator(func(o *allocate.Options) { o.Identity = "second" })
	w.until(func() bool { return strings.Contains(second.log.String(), "Attempting to acquire leader lease") })
	w.allocate(balancer("b"), "192.0.2.2")
	if n := second.counter("purelb_k8s_client_updates_total"); n != 0 {
		t.Errorf("the standby has written %v Services", n)
	}
	first.stop()
	w.remove(a)
	w.allocate(balancer("c"), "192.0.2.1")
	if holder := fetch(w, w.leaderLease()).Spec.HolderIdentity; holder == nil || *holder != "second" {
		t.Errorf("the leader is %v", holder)
	}
}

func TestRestartInItsPodLeadsAtOnce(t *testing.T) {
	w := newWorld(t)
	name, seconds := "allocator-1", int32(3600)
	now := metav1.NowMicro()
	w.create(w.small("default"), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "purelb-allocator"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	})
	w.allocator(func(o *allocate.Options) { o.Identity, o.LeaseDuration = name, time.Hour })
	svc := balancer("svc")
	w.create(svc)
	w.until(func() bool { return addressesOf(fetch(w, svc)) != "" })
}

func TestFurtherLoopWritesOnlyWhileLeading(t *testing.T) {
	w := idleWorld(t)
	var write client.Client
	leads := make(chan struct{})
	a := w.allocator(func(o *allocate.Options) {
		o.Loop = func(_ manager.Manager, gated client.Client, _ typedcorev1.SecretInterface, _ *events.Recorder) (manager.Runnable, error) {
			write = gated
			return manager.RunnableFunc(func(ctx context.Context) error {
				close(leads)
				<-ctx.Done()
				return nil
			}), nil
		}
	})
	<-leads
	w.allocate(balancer("svc"), "192.0.2.1")
	must(t, write.Create(t.Context(), w.small("leading")))
	a.stop()
	if err := write.Create(t.Context(), w.small("stopped")); err == nil {
		t.Error("an allocator that has stopped could write")
	}
}

// The list of the Services is held back. Until it has arrived, the allocator is not ready and gives
// no address: it does not know which addresses are in use.
func TestNothingIsAllocatedBeforeTheStoreIsComplete(t *testing.T) {
	w, first := smallWorld(t)
	old, young := balancer("old"), balancer("young")
	w.allocate(old, "192.0.2.1")
	first.stop()

	open, asked := make(chan struct{}), make(chan struct{})
	ask := sync.OnceFunc(func() { close(asked) })
	w.between(func(req *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
		if strings.HasSuffix(req.URL.Path, "/v1/services") && req.URL.Query().Get("limit") == "500" {
			ask()
			select {
			case <-open:
			case <-req.Context().Done():
				return nil, req.Context().Err()
			}
		}
		return send(req)
	})
	health, metrics := freeAddress(t, "127.17.0.1"), freeAddress(t, "127.17.0.2")
	w.create(young)
	w.allocator(func(o *allocate.Options) { o.HealthAddress, o.MetricsAddress, o.Metrics = health, metrics, nil })
	answers := func(url string, code int, texts ...string) {
		t.Helper()
		w.soon(func() error {
			resp, err := http.Get(url)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != code {
				return fmt.Errorf("%s: %s %s", url, resp.Status, body)
			}
			for _, text := range texts {
				if !strings.Contains(string(body), text) {
					return fmt.Errorf("%s does not say %s", url, text)
				}
			}
			return nil
		})
	}
	w.waitsFor(asked)
	answers("http://"+health+"/healthz", http.StatusOK)
	answers("http://"+health+"/healthz/allocations", http.StatusOK)
	answers("http://"+health+"/readyz", http.StatusInternalServerError)
	if a := addressesOf(fetch(w, young)); a != "" {
		t.Errorf("the Service has %s before the store is complete", a)
	}
	close(open)
	answers("http://"+health+"/readyz", http.StatusOK)
	w.has(young, "192.0.2.2")
	answers("http://"+metrics+"/metrics", http.StatusOK,
		`purelb_address_pool_size{pool="default"} 4`, `purelb_address_pool_addresses_in_use{pool="default"} 2`,
		`purelb_allocator_sg_status_writes_total{outcome="forbidden"} 0`, "purelb_k8s_client_updates_total 1",
		"purelb_k8s_client_update_errors_total 0", "purelb_k8s_client_config_loaded_bool 1")
	answers("http://"+metrics+"/state", http.StatusOK, `"format":4`, `"leading":true`, `"complete":true`)
}

// freeAddress returns an address of ip on which no process listens. ip is an unusual
// loopback address, because other programs may take any free port of 127.0.0.1.
func freeAddress(t *testing.T, ip string) string {
	t.Helper()
	l, err := net.Listen("tcp", ip+":0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}
