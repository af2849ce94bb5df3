package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/expect"
)

// besideNodeB is a world in which node-b has the addresses of web.
func besideNodeB(t *testing.T, services []corev1.Service, test func(*world)) {
	t.Helper()
	inWorld(t, func(w *world) {
		w.cluster.snapshot.Services = services
		w.peers.peers.Members = append(w.peers.peers.Members, reachable("node-b"))
	}, test)
}

// A cluster may have ten thousand Services, and an agent that starts decides on all of them.
func TestANodeNamesAHundredAddressesInAMinute(t *testing.T) {
	var many []corev1.Service
	for i := range 250 {
		ip := fmt.Sprintf("192.0.2.%d", i+1)
		svc := branded(fmt.Sprintf("web-%d", i), ip)
		svc.Annotations[service.AnnotationAnnouncingIPv4] = "node-b,eth0," + ip
		many = append(many, svc)
	}
	besideNodeB(t, many, func(w *world) {
		settle()
		expect.Equal(t, "addresses in the log", strings.Count(w.logged(), "lostElection"), 100)
		pass(3 * time.Minute)
		expect.Equal(t, "log after the minute", w.logged("message", "addresses"), "notLogged lostElection 150")
		w.cluster.change(func(s *objects) { s.Agents = nil })
		settle()
		expect.Equal(t, "addresses in the log of a later minute", strings.Count(w.logged("reason"), "withdrawAddress noConfig"), 100)
	})
}
