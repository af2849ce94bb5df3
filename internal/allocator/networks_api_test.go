package allocator_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/service"
)

// The API server of the tests gives ClusterIPs of 10.96.0.0/16 and fd00:10:96::/112.
func TestTheServiceNetworkIsNotHandedOut(t *testing.T) {
	w := newWorld(t)
	w.since(33, "there are no ServiceCIDRs")
	inside := w.remote("inside", "10.96.0.0/24", "10.96.0.0/24")
	around := w.remote("default", "10.96.255.0-10.97.0.10", "10.96.0.0/15", "fd00:10:96::fff0-fd00:10:96::1:10", "fd00:10:96::/64")
	w.create(inside, around)
	r := w.allocator()
	w.judged(inside, "False", "ClusterNetwork", `"10.96.0.0/24" is inside the Service network 10.96.0.0/16`)
	w.hasEvent(inside, "ParseFailed", "10.96.0.0/16")
	w.judged(around, "True", "Accepted", `"10.96.255.0-10.97.0.10" overlaps the Service network 10.96.0.0/16`, "fd00:10:96::/112")

	both := balancer("both", dualStack(corev1.IPFamilyPolicyRequireDualStack))
	w.create(both)
	w.has(both, "10.97.0.0 fd00:10:96::1:0")
	asking := balancer("asking", annotated(service.AnnotationAddresses, "10.96.255.1"))
	w.create(asking)
	w.says(asking, "False", "AddressReserved", "10.96.255.1", "an address of the Service network 10.96.0.0/16")
	refused := balancer("refused", inGroup("inside"))
	w.create(refused)
	w.says(refused, "False", "NoUsablePool")
	w.soon(func() error {
		s := fetch(w, around).Status
		if got := show(s.AvailableIPv4) + " and " + show(s.AvailableIPv6); got != "10 and 16" {
			return fmt.Errorf("%s addresses are free", got)
		}
		return nil
	})
	if n := strings.Count(r.log.String(), "configChanged"); n > 4 {
		t.Errorf("the configuration has changed %d times:\n%s", n, r.log)
	}
}

// A node joins, and its pods get addresses of a pool.
func TestAPodNetworkIsNotHandedOut(t *testing.T) {
	w := newWorld(t)
	w.create(w.remote("default", "10.244.0.0-10.244.1.255", "10.244.0.0/16"))
	w.allocator()
	holder := balancer("holder")
	w.create(holder)
	w.has(holder, "10.244.0.0")
	w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{PodCIDR: "10.244.0.0/24", PodCIDRs: []string{"10.244.0.0/24"}}})
	w.says(holder, "False", "AddressConflict", "10.244.0.0 is also an address of the pod network 10.244.0.0/24 of node n1")
	w.has(holder, "10.244.0.0")
	w.patch(holder, `{"metadata":{"annotations":{"purelb.io/re-evaluate":"true"}}}`)
	w.has(holder, "10.244.1.0")
	w.says(holder, "True", "Allocated")
}

func TestNewServiceCIDRCountsAtOnce(t *testing.T) {
	w := newWorld(t)
	w.since(33, "there are no ServiceCIDRs")
	w.create(w.remote("default", "10.98.0.0-10.98.1.255", "10.98.0.0/16"))
	w.allocator()
	first, second := balancer("first"), balancer("second")
	w.create(first)
	w.has(first, "10.98.0.0")
	more := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.98.0.0/24"}}}
	w.create(more)
	t.Cleanup(func() {
		w.patch(more, `{"metadata":{"finalizers":null}}`) // no controller removes it here
		w.remove(more)
	})
	w.says(first, "False", "AddressConflict", "the Service network 10.98.0.0/24")
	w.create(second)
	w.has(second, "10.98.1.0")
}

// Kubernetes before 1.33 does not serve ServiceCIDRs, and the chart of an earlier version
// gives no right to read them.
func TestServiceCIDRsNeedNotBeServed(t *testing.T) {
	for reason, code := range map[metav1.StatusReason]int{metav1.StatusReasonNotFound: http.StatusNotFound, metav1.StatusReasonForbidden: http.StatusForbidden} {
		t.Run(string(reason), func(t *testing.T) {
			w := newWorld(t)
			inside := w.remote("inside", "10.96.0.0/24", "10.96.0.0/24")
			w.create(inside, w.remote("default", "198.51.100.0/24", "198.51.100.0/24"))
			w.between(func(req *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
				if !strings.HasSuffix(req.URL.Path, "/servicecidrs") {
					return send(req)
				}
				answer := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
				return &http.Response{
					StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(answer)), Request: req,
				}, nil
			})
			w.allocator()
			w.judged(inside, "False", "ClusterNetwork", "10.96.0.1, the ClusterIP of the Service default/kubernetes")
			svc := balancer("svc")
			w.create(svc)
			w.says(svc, "True", "Allocated")
		})
	}
}
