package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
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

func TestANodeSaysOnceWhyItDoesNotHaveAnAddress(t *testing.T) {
	besideNodeB(t, []corev1.Service{heldBy("node-b")}, func(w *world) {
		pass(10 * time.Minute)
		expect.Equal(t, "log of the loser", w.logged("address", "reason", "winner"),
			"subnetsChanged\nlostElection 192.0.2.9 lostElection node-b\nlostElection 2001:db8::9 lostElection node-b")
		w.cluster.change(func(s *objects) {
			s.Agents = []v2.LBNodeAgent{lbNodeAgent("default", v2.InterfaceSpec{LocalInterface: "eth1"})}
			s.Agents[0].Generation = 2
		})
		pass(10 * time.Minute)
		expect.Contains(t, "log without the network", w.logged("address", "reason"),
			"noLocalInterface 192.0.2.9 noLocalInterface\nnoLocalInterface 2001:db8::9 noLocalInterface")
		w.cluster.change(func(s *objects) { s.Agents = nil })
		pass(10 * time.Minute)
		expect.Contains(t, "log without an LBNodeAgent", w.logged("address", "reason"),
			"withdrawAddress 192.0.2.9 noConfig\nwithdrawAddress 2001:db8::9 noConfig")
		pass(10 * time.Minute)
		expect.Equal(t, "log later", w.logged(), "")
	})
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
