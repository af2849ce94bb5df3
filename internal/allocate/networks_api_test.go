package allocate_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
