package allocate_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/testing/ipamtest"
)

// ipamServer is an IPAM server on a socket. Package backends tests the rest of what such a server may do.
type ipamServer struct {
	*ipamtest.Server
	socket string
	calls  atomic.Int32
}

func newIPAMServer(t *testing.T) *ipamServer {
	t.Helper()
	s := &ipamServer{Server: ipamtest.NewServer("203.0.113.1"), socket: ipamtest.Socket(t)}
	s.Before = func(context.Context, *ipamv1.AllocateRequest) error { s.calls.Add(1); return nil }
	return s
}

func TestIPAMServerGivesAndTakesBackAddresses(t *testing.T) {
	w := newWorld(t)
	s := newIPAMServer(t)
	g := w.groupOf("sidecar", v2.ServiceGroupSpec{External: &v2.ExternalSpec{Provider: "Example", Socket: s.socket, Announce: "remote"}})
	w.create(g, w.local("default", "198.51.100.0/24", "198.51.100.0/24"))
	r := w.allocator()

	// While the server is down, Services of other groups get addresses.
	web := balancer("web", inGroup("sidecar"), dualStack(corev1.IPFamilyPolicyRequireDualStack))
	w.create(web)
	w.says(web, metav1.ConditionFalse, ipam.ReasonBackendUnavailable, s.socket)
	local := w.allocate(balancer("local"), "198.51.100.1")

	stop := ipamtest.Serve(t, ipamtest.Listen(t, s.socket), s)
	w.gets(web, "203.0.113.1 2001:db8::1")
	shared := func(name string, port int32) *corev1.Service {
		return balancer(name, inGroup("sidecar"), annotated("purelb.io/allow-shared-ip", "k"), func(svc *corev1.Service) { svc.Spec.Ports[0].Port = port })
	}
	first, second := shared("first", 80), shared("second", 81)
	w.create(first, second)
	w.gets(first, "203.0.113.2")
	w.gets(second, "203.0.113.2")

	// The Service keeps its address while the server is down and after the allocator restarts.
	stop()
	r.stop()
	calls := s.calls.Load()
	w.remove(local)
	w.allocator()
	w.allocate(balancer("again"), "198.51.100.1")
	w.has(web, "203.0.113.1 2001:db8::1")
	w.remove(first)
	w.remove(web)
	ipamtest.Serve(t, ipamtest.Listen(t, s.socket), s)
	w.within(asksAgain, func() error {
		if got, want := s.Print(), "sidecar "+second.Namespace+"/shared:k 203.0.113.2"; got != want {
			return fmt.Errorf("the server holds %s, want %s", got, want)
		}
		return nil
	})
	if now := s.calls.Load(); now != calls {
		t.Errorf("after its restart, the allocator asked for addresses %d times", now-calls)
	}
	w.remove(second)
	w.within(asksAgain, func() error {
		if got := s.Print(); got != "" {
			return fmt.Errorf("the server holds %s", got)
		}
		return nil
	})
}
