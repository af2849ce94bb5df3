package gobgp

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/bgptest"
)

// What the status of a neighbor says about a session that does not come up.
const (
	refused   = "the router refused this node: it expects another AS number or another family, or it has a session with this node already; its log has the reason"
	anotherAS = "the router is in another AS than peerAsn says"
	silent    = "the router does not answer; see that it has this node as a neighbor, without a password, and that TCP port 179 is open"
	password  = "the router does not answer, as it does if its password is not the one of the BGPConfiguration"
)

// mistake is a mistake on one side of a session. Without frr, BIRD has the neighbor and the lines.
type mistake struct {
	name     string
	frr      string
	neighbor string
	bird     string
	ours     func(*peering.Peer) // or nil
	want     string              // texts, one of which is the reason
}

var mistakes = []mistake{
	{"FRR expects another AS", " neighbor 192.0.2.1 remote-as 65099", "", "", nil, refused},
	{"FRR is in another AS", " ", "", "", inAnotherAS, anotherAS},
	{"FRR does not know the node", " no neighbor 192.0.2.1", "", "", nil, silent},
	{"FRR has another family", " address-family ipv4 unicast\n  no neighbor 192.0.2.1 activate", "", "", onlyIPv4, refused},
	{"FRR has another password", " neighbor 192.0.2.1 password right", "", "", withPassword("wrong"), password},
	{"FRR has the password without the line break", " neighbor 192.0.2.1 password right", "", "", withPassword("right\n"), password},
	{"FRR has a password, and the node has none", " neighbor 192.0.2.1 password right", "", "", nil, silent},
	{"FRR has no password", " ", "", "", withPassword("wrong"), password},
	{"FRR checks the TTL", " neighbor 192.0.2.1 ttl-security hops 1", "", "", brief, silentOrLate},
	{"the node checks the TTL of FRR", " ", "", "", checkingTTL, silent},
	{"BIRD expects another AS", "", "192.0.2.1 as 65099", bothFamilies, nil, refused},
	{"BIRD is in another AS", "", "192.0.2.1 as 64515", bothFamilies, inAnotherAS, anotherAS},
	{"BIRD does not know the node", "", "192.0.2.77 as 64515", bothFamilies, nil, silent},
	{"BIRD has another family", "", "192.0.2.1 as 64515", "ipv6 { import all; export none; };", onlyIPv4, refused},
	{"BIRD has another password", "", "192.0.2.1 as 64515", bothFamilies + ` password "right";`, withPassword("wrong"), password},
	{"BIRD has no password", "", "192.0.2.1 as 64515", bothFamilies, withPassword("wrong"), password},
	{"BIRD checks the TTL", "", "192.0.2.1 as 64515", bothFamilies + " ttl security on;", brief, silentOrLate},
}

// silentOrLate is for a router that may read the OPEN message before it begins to check the TTL. Such a
// session comes up, and ends with the hold timer.
const silentOrLate = silent + "|" + peering.HoldTimerExpired

const bothFamilies = "ipv4 { import all; export none; }; ipv6 { import all; export none; };"

func inAnotherAS(p *peering.Peer) { p.ASN = 65098 }

func onlyIPv4(p *peering.Peer) { p.Families, p.NextHops = p.Families[:1], nil }

func brief(p *peering.Peer) { p.Timers.Hold, p.Timers.Keepalive = 3*time.Second, time.Second }

func checkingTTL(p *peering.Peer) { p.TTLSecurity = 255 }

func withPassword(text string) func(*peering.Peer) {
	return func(p *peering.Peer) { p.Password = text }
}

// start starts the router, and returns it as a neighbor of the node.
func (r mistake) start(w *world) peering.Peer {
	w.t.Helper()
	as := uint32(routerAS)
	if r.frr != "" {
		w.frr("192.0.2.1", r.frr)
	} else {
		as = birdAS
		n := w.machine()
		bgptest.BIRD(w.t, n, fmt.Sprintf(`
router id 192.0.2.%[1]d;
protocol bgp ours {
 local 192.0.2.%[1]d as %[2]d; neighbor %[3]s;
 connect retry time 1; connect delay time 1; error wait time 1, 2;
 %[4]s
}
`, w.routers, birdAS, r.neighbor, r.bird))
	}
	p := inAS(peer(fmt.Sprintf("192.0.2.%d", w.routers)), as)
	if r.ours != nil {
		r.ours(&p)
	}
	return p
}

// Each mistake has a reason in words.
func TestTheReasonOfARefusalIsInWords(t *testing.T) {
	w := newWorld(t)
	var peers []peering.Peer
	for _, r := range mistakes {
		peers = append(peers, r.start(w))
	}
	s := newServer(t)
	wanted := state(peers...)
	apply(t, s, wanted)
	for i, r := range mistakes {
		address := peers[i].Name()
		last := ""
		if !bgptest.Eventually(func() bool {
			last = lastErrorOf(neighbors(t, s), wanted, address)
			return slices.ContainsFunc(strings.Split(r.want, "|"), func(want string) bool { return strings.HasPrefix(last, want) })
		}) {
			t.Errorf("%s: the status says %q, want %q", r.name, last, r.want)
		}
	}
}

// lastErrorOf returns what the status says about a neighbor.
func lastErrorOf(found []peering.NeighborStatus, wanted peering.State, address string) string {
	r := peering.Report{Now: time.Now(), Decision: peering.Decision{State: wanted, OK: true}, Neighbors: found}
	all := peering.NodeStatus(r, bgpv1.BGPNodeStatusStatus{}).Neighbors
	return all[slices.IndexFunc(all, func(n bgpv1.NodeNeighbor) bool { return n.Address == address })].LastError
}

// The reason goes when it is no longer true.
func TestAnOldReasonOfARefusalGoes(t *testing.T) {
	w := newWorld(t)
	router := w.frr("192.0.2.1")
	s := newServer(t)
	says := func(wanted peering.State, text string) {
		t.Helper()
		apply(t, s, wanted)
		bgptest.Await(t, "the reason", text, func() string {
			last, _, _ := strings.Cut(lastErrorOf(neighbors(t, s), wanted, "192.0.2.2"), "; state unchanged")
			return last
		})
	}
	says(state(inAS(peer("192.0.2.2"), 65098)), anotherAS)
	router.Ask(fmt.Sprintf("configure terminal\nrouter bgp %d\nneighbor 192.0.2.1 password right", routerAS))
	secret := peer("192.0.2.2")
	secret.Password = "wrong"
	says(state(secret), password)
	secret.Password = "right"
	says(state(secret), "")
	established(t, s, "192.0.2.2")
}
