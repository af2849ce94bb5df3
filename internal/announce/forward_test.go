package announce_test

import (
	"fmt"
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
)

// waits makes this a node whose kube-proxy has not worked yet.
func waits(s *announce.Situation) { s.Waits = true }

func TestANodeWithoutKubeProxyTakesNoAddress(t *testing.T) {
	decisions{
		{"a local address that it should have", []twist{serve("10.0.0.5")}, "10.0.0.5: no, kubeProxyNotReady, node-a\n"},
		{"one that it had before the power went", []twist{serveAs("default/web", slots("node-a,eth0,10.0.0.5"), "10.0.0.5"), untrusted},
			"10.0.0.5: no, kubeProxyNotReady, node-a\n"},
		{"one of another node", []twist{serve("192.168.1.100")}, "192.168.1.100: no, lostElection, node-c\n"},
		{"a remote address", []twist{serve("172.16.0.1")}, "172.16.0.1: no, kubeProxyNotReady\n"},
		{"a local address that is here stays", []twist{serve("10.0.0.5"), has(hasLocal("eth0", "10.0.0.5/24", lifetime))},
			"10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0 expiring\n"},
		{"a remote address that is here stays", []twist{serve("172.16.0.1"), has(hasRemote("kube-lb0", "172.16.0.1/24"))},
			"172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev kube-lb0\n"},
	}.check(t, waits)
}

func TestANodeWithAnUnservedEndpointTakesNoAddressOfTheService(t *testing.T) {
	unserved := func(s *announce.Situation) {
		s.Endpoints = onNodes("default/web", "node-a", "node-b")
		s.Unserved = map[announce.ServiceFamily]bool{{Service: "default/web", Family: addr.V4}: true}
	}
	allowed := func(s *announce.Service) { s.LocalPolicy, s.AllowLocal = true, true }
	decisions{
		{"a remote address", []twist{serveAs("default/web", narrow, "172.16.0.1")}, "172.16.0.1: no, kubeProxyNotReady\n"},
		{"of the other family", []twist{serveAs("default/web", narrow, "fd16::1")}, "fd16::1: remote, announcingNonLocal, fd16::1/64 dev kube-lb0\n"},
		{"of another Service", []twist{serveAs("default/other", nil, "172.16.0.1")}, "default/other 172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev kube-lb0\n"},
		{"a local address", []twist{serveAs("default/web", allowed, "10.0.0.5")}, "10.0.0.5: no, kubeProxyNotReady, node-a\n"},
		{"one that is here stays", []twist{serveAs("default/web", narrow, "172.16.0.1"), has(hasRemote("kube-lb0", "172.16.0.1/24"))},
			"172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev kube-lb0\n"},
	}.check(t, unserved)
}

func TestKubeProxyIsAskedAboutServicesWithAnEndpointHere(t *testing.T) {
	asked := func(s *announce.Service) { s.LocalPolicy, s.HealthPort = true, 30001 }
	for _, tt := range []struct {
		name    string
		service twist
		ready   announce.Endpoints
		want    string
	}{
		{"an endpoint here", serveAs("default/web", asked, "172.16.0.1"), onNodes("default/web", "node-a"), "map[{default/web IPv4}:30001]"},
		{"both families", serveAs("default/web", asked, "172.16.0.1", "fd16::1"), onNodes("default/web", "node-a"), "map[{default/web IPv4}:30001 {default/web IPv6}:30001]"},
		{"an endpoint elsewhere", serveAs("default/web", asked, "172.16.0.1"), onNodes("default/web", "node-b"), "map[]"},
		{"endpoints that are not known yet", serveAs("default/web", asked, "172.16.0.1"), nil, "map[]"},
		{"the policy Cluster", serve("172.16.0.1"), onNodes("default/web", "node-a"), "map[]"},
		{"without a port", serveAs("default/web", narrow, "172.16.0.1"), onNodes("default/web", "node-a"), "map[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			equal(t, fmt.Sprint(announce.HealthPorts("node-a", situation(tt.service).Services, tt.ready)), tt.want)
		})
	}
}
