package allocate_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/allocate/ipam"
)

// ipamServer serves purelb.ipam.v1 on a socket. Package backends tests the rest of what such a
// server may do.
type ipamServer struct {
	ipamv1.UnimplementedIPAMServer
	socket string

	mu sync.Mutex
	// held are the numbers of the Services. The number is the last part of the addresses.
	held  map[string]int
	calls int
}

func newIPAMServer(t *testing.T) *ipamServer {
	t.Helper()
	folder, err := os.MkdirTemp("", "ipam") // The path of a socket must be short.
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(folder)) })
	return &ipamServer{socket: filepath.Join(folder, "s"), held: map[string]int{}}
}

// start serves until stop is called, or the test ends.
func (s *ipamServer) start(t *testing.T) (stop func()) {
	t.Helper()
	listener, err := net.Listen("unix", s.socket)
	must(t, err)
	server := grpc.NewServer()
	ipamv1.RegisterIPAMServer(server, s)
	go server.Serve(listener) //nolint:errcheck // It ends with the test.
	stop = sync.OnceFunc(server.Stop)
	t.Cleanup(stop)
	return stop
}

func (s *ipamServer) Allocate(_ context.Context, r *ipamv1.AllocateRequest) (*ipamv1.AllocateResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	for n := 1; s.held[r.Service] == 0; n++ {
		if !slices.Contains(slices.Collect(maps.Values(s.held)), n) {
			s.held[r.Service] = n
		}
	}
	reply := &ipamv1.AllocateResponse{}
	for network, wanted := range map[string]bool{"203.0.113.": r.GetFamilies().GetWantIpv4(), "2001:db8::": r.GetFamilies().GetWantIpv6()} {
		if wanted {
			reply.Ips = append(reply.Ips, &ipamv1.AllocatedIP{Ip: fmt.Sprint(network, s.held[r.Service])})
		}
	}
	return reply, nil
}

func (s *ipamServer) Release(_ context.Context, r *ipamv1.ReleaseRequest) (*ipamv1.ReleaseResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, r.Service)
	return &ipamv1.ReleaseResponse{}, nil
}

func (s *ipamServer) Stats(context.Context, *ipamv1.StatsRequest) (*ipamv1.StatsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &ipamv1.StatsResponse{HasKnownCapacity: true, SizeV4: 3, SizeV6: 3, InUseV4: uint64(len(s.held))}, nil
}

// holds lists what the server holds.
func (s *ipamServer) holds() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.held)
}

func (s *ipamServer) allocateCalls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
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

	stop := s.start(t)
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
	calls := s.allocateCalls()
	w.remove(local)
	w.allocator()
	w.allocate(balancer("again"), "198.51.100.1")
	w.has(web, "203.0.113.1 2001:db8::1")
	w.remove(first)
	w.remove(web)
	s.start(t)
	w.within(asksAgain, func() error {
		if got, want := s.holds(), "map["+second.Namespace+"/shared:k:2]"; got != want {
			return fmt.Errorf("the server holds %s, want %s", got, want)
		}
		return nil
	})
	if now := s.allocateCalls(); now != calls {
		t.Errorf("after its restart, the allocator asked for addresses %d times", now-calls)
	}
	w.remove(second)
	w.within(asksAgain, func() error {
		if got := s.holds(); got != "map[]" {
			return fmt.Errorf("the server holds %s", got)
		}
		return nil
	})
}
