package announce_test

import (
	"fmt"
	"strings"
	"testing"

	"purelb.io/purelb/internal/announce"
)

func TestHazards(t *testing.T) {
	anySender := func(s *announce.Situation) { s.Node.AnySender = true }
	known := func(ips ...string) twist { return func(s *announce.Situation) { s.NodeAddresses = addrs(ips...) } }
	const (
		sender   = "ARPSenderNotStrict asks for its gateway as 172.16.0.1, the address of a Service, and routers that check the sender do not answer: set net.ipv4.conf.all.arp_announce to 2"
		mistaken = "ServiceIsNodeAddress has the address of Service default/web, %s, as its own in Kubernetes, so other nodes reach it there: " +
			"set --node-ip for its kubelet (node-ip with K3s and RKE2), and IP_AUTODETECTION_METHOD=kubernetes-internal-ip with Calico"
	)
	for _, tt := range []struct {
		name  string
		given []twist
		want  []string
	}{
		{"none", []twist{serve("10.0.0.5", "172.16.0.1"), has(hasRemote("kube-lb0", "172.16.0.1/32")), known("10.0.0.1", "fd00::a")}, nil},
		{"the kernel asks with any address as the sender", []twist{anySender, has(hasRemote("kube-lb0", "172.16.0.1/32"))}, []string{sender}},
		{"but has no remote address of IPv4", []twist{anySender, has(hasRemote("kube-lb0", "fd16::1/128"), here4)}, nil},
		{"nor one of ours", []twist{anySender, has(hasNode("kube-lb0", "172.16.0.1/32"))}, nil},
		{"Kubernetes has the address of a Service as the node's", []twist{serve("10.0.0.5", "fd00::50"), has(here6), known("10.0.0.1", "fd00::50")},
			[]string{fmt.Sprintf(mistaken, "fd00::50")}},
		{"also when another node has it by now", []twist{serve("fd00::50"), known("fd00::50")}, []string{fmt.Sprintf(mistaken, "fd00::50")}},
		{"a Service has the node's own address", []twist{serve("10.0.0.1"), known("10.0.0.1")}, nil},
		{"it is the address of nobody", []twist{serve("10.0.0.5"), known("10.0.0.6")}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := situation(tt.given...)
			var got []string
			for _, h := range announce.Hazards(s) {
				got = append(got, h.Reason+" "+h.Text)
			}
			equal(t, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		})
	}
}

func TestTheGossipAddressOfANode(t *testing.T) {
	known := func(ips ...string) twist { return func(s *announce.Situation) { s.NodeAddresses = addrs(ips...) } }
	for _, tt := range []struct {
		name, now string
		given     []twist
		want      string
	}{
		{"it is on the node", "10.0.0.1", []twist{known("192.168.1.1")}, "10.0.0.1"},
		{"the node was renumbered", "10.0.0.99", []twist{known("fd00::a", "10.0.0.1")}, "10.0.0.1"},
		{"Kubernetes does not know that yet, or the address is gone for a moment", "10.0.0.99", []twist{known("10.0.0.99", "fd00::a")}, "10.0.0.99"},
		{"it is the address of a Service, which is here", "fd00::50", []twist{has(here6), known("fd00::50", "fd00::a")}, "fd00::a"},
		{"or elsewhere", "fd00::50", []twist{known("fd00::a")}, "fd00::a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := situation(tt.given...)
			equal(t, announce.Moved(addrs(tt.now)[0], s), addrs(tt.want)[0])
		})
	}
}
