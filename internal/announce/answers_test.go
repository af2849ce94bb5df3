package announce_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
)

// mac returns the Ethernet address of the node or machine of that letter.
func mac(letter byte) [6]byte { return [6]byte{2, 0, 0, 0, 0, letter} }

// nodesBtoD returns peers with the nodes b, c and d. Gossip hears b and c. Other letters are
// no nodes, except that both b and c claim s, and both b and d claim t.
func nodesBtoD() election.Peers {
	p := election.Peers{MACs: map[[6]byte]string{}}
	for _, letter := range []byte("bcd") {
		name := "node-" + string(letter)
		p.MACs[mac(letter)] = name
		p.Members = append(p.Members, election.Member{Node: name, Reachable: letter != 'd'})
	}
	p.MACs[mac('e')] = "node-e" // it is gone, and only its Lease is left
	p.SharedMACs = map[[6]byte][]string{mac('s'): {"node-b", "node-c"}, mac('t'): {"node-b", "node-d"}}
	return p
}

func TestAnswers(t *testing.T) {
	ip := netip.MustParseAddr("10.0.0.5")
	for _, tt := range []struct{ answered, denied, asked, holder string }{
		{"", "", "", ""},
		{"b", "", "b", "b"},
		{"b", "b", "b", ""},
		{"bc", "b", "bc", "c"},
		{"bc", "bc", "bc", ""},
		{"bx", "b", "", "x"},
		{"xb", "", "", "x"},
		{"bd", "", "", "d"}, // rather a node that cannot be asked than one that was not
		{"be", "", "", "e"},
		{"dxb", "", "", "x"},
		{"bc", "x", "bc", "b"},
		{"s", "", "bc", "s"},
		{"s", "b", "bc", "s"}, // the claim of b may be a lie
		{"s", "c", "bc", "s"},
		{"s", "bc", "bc", ""},
		{"t", "b", "", "t"},
	} {
		t.Run(tt.answered+" answers, "+tt.denied+" denies", func(t *testing.T) {
			answers, denied := announce.Answers{}, announce.Denied{}
			for _, letter := range []byte(tt.answered) {
				answers[ip] = append(answers[ip], mac(letter))
			}
			for _, letter := range []byte(tt.denied) {
				denied.Add("node-"+string(letter), []netip.Addr{ip})
			}
			var asked []string
			for node, ips := range answers.ToAsk([]netip.Addr{ip, ip.Next()}, nodesBtoD()) {
				asked = append(asked, strings.TrimPrefix(node, "node-"))
				if len(ips) != 1 || ips[0] != ip {
					t.Errorf("%s is asked for %v", node, ips)
				}
			}
			slices.Sort(asked)
			holder, found := answers.Holders(nodesBtoD(), denied)[ip]
			if got := strings.Join(asked, ""); got != tt.asked || found != (tt.holder != "") || found && holder != mac(tt.holder[0]) {
				t.Errorf("asked are %q, want %q; the holder is %s, want %q", got, tt.asked, announce.MACText(holder), tt.holder)
			}
		})
	}
}

// A node with two interfaces on a segment may answer by both, and is asked once.
func TestANodeIsAskedOnce(t *testing.T) {
	peers, ip := nodesBtoD(), netip.MustParseAddr("10.0.0.5")
	peers.MACs[mac('B')] = "node-b"
	asked := announce.Answers{ip: {mac('b'), mac('B')}}.ToAsk([]netip.Addr{ip}, peers)
	equal(t, fmt.Sprint(asked), "map[node-b:[10.0.0.5]]")
}

func TestCarried(t *testing.T) {
	node := announce.Node{
		Links: []announce.Link{{Name: "lo"}, {Name: "eth0"}, {Name: "dummy7", Kind: "dummy"}, {Name: "kube-ipvs0", Kind: "dummy"}},
		Addresses: list(hasNode("eth0", "10.0.0.1/24"), hasNode("lo", "10.0.0.2/32"), hasNode("dummy7", "10.0.0.3/32"),
			hasNode("kube-ipvs0", "10.0.0.4/32"), hasNode("kube-ipvs0", "10.0.0.5/32"), hasLocal("eth0", "10.0.0.5/24", lifetime)),
	}
	want := "map[10.0.0.1:true 10.0.0.4:false 10.0.0.5:true]"
	equal(t, fmt.Sprint(announce.Carried(node)), want)
}
