package intent

import (
	"testing"

	"purelb.io/purelb/internal/addr"
)

func TestAnEndpointThatMovesBetweenSlicesCountsOnce(t *testing.T) {
	counts := countEndpoints([]SliceFacts{
		{Service: "default/a", Family: addr.V4, Ready: []string{"10.0.0.1", "10.0.0.2"}, Unready: []string{"10.0.0.3"}},
		{Service: "default/a", Family: addr.V4, Ready: []string{"10.0.0.1", "10.0.0.3"}, Unready: []string{"10.0.0.4"}},
		{Service: "default/a", Family: addr.V6, Ready: []string{"fd00::1"}},
	})
	if n := counts[serviceFamily{"default/a", addr.V4}]; n != 2 {
		t.Errorf("%d IPv4 endpoints, want 2", n)
	}
	if n := counts[serviceFamily{"default/a", addr.V6}]; n != 1 {
		t.Errorf("%d IPv6 endpoints, want 1", n)
	}
}
