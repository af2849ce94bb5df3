package announce_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"purelb.io/purelb/internal/announce"
)

// mac returns the Ethernet address of the node or machine of that letter.
func mac(letter byte) [6]byte { return [6]byte{2, 0, 0, 0, 0, letter} }

// ipvs puts the addresses of Services on kube-ipvs0 of a node without strictARP.
func ipvs(s *announce.Situation) {
	s.Node.LooseARP = true
	s.Node.Links = append(s.Node.Links, announce.Link{Name: "kube-ipvs0", Kind: "dummy"})
}

// b, c and d are nodes. x and y are machines outside of the cluster.
func TestTheHolderByTheAnswers(t *testing.T) {
	web := serveAs("default/web", slots("node-c,eth0,10.0.0.5 node-c,eth0,fd00::50"), "10.0.0.5", "fd00::50")
	strict := func(s *announce.Situation) { ipvs(s); s.Node.LooseARP = false }
	for _, tt := range []struct {
		name, ip string
		given    []twist
		answered string
		want     string
	}{
		{"no machine answers", "10.0.0.5", []twist{web}, "", ""},
		{"the node that the slot names", "10.0.0.5", []twist{web}, "c", "c"},
		{"a node that PureLB never named: another product answers there", "10.0.0.5", []twist{serve("10.0.0.5")}, "b", "b"},
		{"the first of several nodes", "10.0.0.5", []twist{web}, "bc", "b"},
		{"rather a machine outside of the cluster", "10.0.0.5", []twist{web}, "bxy", "x"},
		{"IPVS without strictARP: no slot names the nodes that answer", "10.0.0.5", []twist{serve("10.0.0.5"), ipvs}, "bd", ""},
		{"IPVS without strictARP: only the node that the slot names", "10.0.0.5", []twist{web, ipvs}, "bcd", "c"},
		{"IPVS without strictARP: a machine outside of the cluster", "10.0.0.5", []twist{web, ipvs}, "bx", "x"},
		{"IPVS without strictARP: IPv6 has no such answers", "fd00::50", []twist{serve("fd00::50"), ipvs}, "b", "b"},
		{"IPVS with strictARP", "10.0.0.5", []twist{serve("10.0.0.5"), strict}, "b", "b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ip := netip.MustParseAddr(tt.ip)
			s := situation(tt.given...)
			s.Peers.MACs = map[[6]byte]string{mac('b'): "node-b", mac('c'): "node-c", mac('d'): "node-d"}
			answers := announce.Answers{}
			for _, letter := range []byte(tt.answered) {
				answers[ip] = append(answers[ip], mac(letter))
			}
			got := ""
			if holder, found := answers.Holders(s)[ip]; found {
				got = string(holder[5])
			}
			equal(t, got, tt.want)
		})
	}
}

// MetalLB's speaker on node-b answers for the address, which is on no interface there.
func TestAnAddressOfAnotherProductIsNotTaken(t *testing.T) {
	ip := netip.MustParseAddr(v4)
	s := situation(serve(v4))
	s.Peers.MACs = map[[6]byte]string{mac('b'): "node-b"}
	does := announce.Addresses{Self: "node-a", Limit: announce.HandoverLimit}
	for i := range 600 {
		now := begin.Add(time.Duration(i) * time.Second)
		plan := elected("eth0")
		if steps := does.Come(now, s, plan, plan.Wanted, nil); len(steps.Add) > 0 {
			t.Fatalf("the address is taken at %s", now.Sub(begin))
		}
		does.Probed(now, "eth0", []netip.Addr{ip}, announce.Answers{ip: {mac('b')}}.Holders(s))
	}
}

func TestCarried(t *testing.T) {
	node := announce.Node{
		Links: []announce.Link{{Name: "lo"}, {Name: "eth0"}, {Name: "dummy7", Kind: "dummy"}, {Name: "kube-ipvs0", Kind: "dummy"}},
		Addresses: list(hasNode("eth0", "10.0.0.1/24"), hasNode("lo", "10.0.0.2/32"), hasNode("dummy7", "10.0.0.3/32"),
			hasNode("kube-ipvs0", "10.0.0.4/32"), hasNode("kube-ipvs0", "10.0.0.5/32"), hasLocal("eth0", "10.0.0.5/24", lifetime)),
	}
	equal(t, fmt.Sprint(announce.Carried(node)), "map[10.0.0.1:true 10.0.0.5:true]")
}
