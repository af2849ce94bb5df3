package announce_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/groups"
)

// mostDecide limits the duration of one decision on all addresses of the largest clusters, in
// milliseconds.
const mostDecide = 500

// BenchmarkDecideRouted is one decision among 1,000 nodes, each in a network of its
// own, on 10,000 different addresses: half are in these networks and held, half are
// remote.
func BenchmarkDecideRouted(b *testing.B) {
	s := theSituation()
	s.Peers.Members, s.Peers.Known = nil, nil
	for i := range 1000 {
		network := fmt.Sprintf("10.%d.%d.0/24", i/250, i%250)
		s.Peers.Members = append(s.Peers.Members, member(fmt.Sprintf("node-%04d", i), network))
		s.Peers.Known = append(s.Peers.Known, netip.MustParsePrefix(network))
	}
	s.Self = s.Peers.Members[0].Node
	s.Config.Groups = groupsOf(groupOf(groups.AnnounceLocal, "10.0.0.0/9"), groupOf(groups.AnnounceRemote, "172.16.0.0/12", "fd16::/64"))
	for i := range 5_000 {
		node, ip := i%1000, fmt.Sprintf("10.%d.%d.%d", i%1000/250, i%250, 10+i/1000)
		serveAs(fmt.Sprintf("default/local-%05d", i), slots(fmt.Sprintf("node-%04d,eth0,%s", node, ip)), ip)(&s)
		remoteIP := fmt.Sprintf("172.16.%d.%d", i/250, 1+i%250)
		if i%2 == 0 {
			remoteIP = fmt.Sprintf("fd16::%x", 1+i)
		}
		serveAs(fmt.Sprintf("default/remote-%05d", i), remote, remoteIP)(&s)
	}
	measureDecide(b, s, "decide_1000_nodes_10k_addresses_ms")
}

// BenchmarkDecideOrphans is one decision among 1,000 nodes in one network on 1,000
// addresses that no node has: their holder died, and the winners have not taken them
// yet.
func BenchmarkDecideOrphans(b *testing.B) {
	s := theSituation()
	s.Peers.Members = nil
	for i := range 1000 {
		s.Peers.Members = append(s.Peers.Members, member(fmt.Sprintf("node-%04d", i), "10.0.0.0/8"))
	}
	s.Self, s.Peers.Known = s.Peers.Members[0].Node, prefixes("10.0.0.0/8")
	for i := range 1000 {
		ip := fmt.Sprintf("10.1.%d.%d", i/250, 1+i%250)
		serveAs(fmt.Sprintf("default/s%05d", i), slots("gone,eth0,"+ip), ip)(&s)
	}
	measureDecide(b, s, "decide_1000_nodes_1k_orphans_ms")
}

// measureDecide prints the duration of a decision on s with its difference. It takes the
// shortest of several runs, because the machine may be busy.
func measureDecide(b *testing.B, s announce.Situation, result string) {
	b.Helper()
	b.ReportAllocs()
	shortest := time.Hour
	for b.Loop() {
		start := time.Now()
		plan := announce.Decide(s)
		announce.Diff(plan.Wanted, s.Node)
		shortest = min(shortest, time.Since(start))
	}
	ms := float64(shortest.Microseconds()) / 1000
	fmt.Printf("RESULT %s %.1f ms\n", result, ms)
	if ms > mostDecide {
		b.Errorf("a decision took %.0f ms, want at most %d", ms, mostDecide)
	}
}

// BenchmarkManyLinks is the part of a pass that looks at the link of each address: 10,000 addresses
// on a node with the links of 500 pods.
func BenchmarkManyLinks(b *testing.B) {
	node := announce.Node{MarksSupported: true}
	for i := range 500 {
		node.Links = append(node.Links, announce.Link{Name: fmt.Sprintf("veth%03d", i), Index: i + 3, Kind: "veth", Up: true, Carrier: true})
	}
	node.Links = append(node.Links, announce.Link{Name: "eth0", Index: 2, Neighbors: true, Up: true, Carrier: true, MAC: [6]byte{2}})
	ip := netip.MustParseAddr("10.0.0.0")
	var p announce.Plan
	for range 10_000 {
		ip = ip.Next()
		a := announce.Address{Prefix: netip.PrefixFrom(ip, 8), Link: "eth0", Mark: announce.Mark}
		node.Addresses = append(node.Addresses, a)
		p.Decisions = append(p.Decisions, announce.Decision{IP: ip, Where: announce.Local, Address: a})
		p.Wanted = append(p.Wanted, a)
	}
	var began time.Time
	for b.Loop() {
		if began.IsZero() {
			began = time.Now()
		}
		var t announce.Addresses
		if n := len(announce.Carried(node)); n != len(p.Wanted) {
			b.Fatalf("it carries %d addresses, want %d", n, len(p.Wanted))
		}
		if n := len(t.Come(began, beside(node), p, p.Wanted, nil).Add); n != len(p.Wanted) {
			b.Fatalf("%d addresses are there, want %d", n, len(p.Wanted))
		}
		announce.Own(node, nil)
		announce.MACs(node)
	}
	fmt.Printf("RESULT links_500_addresses_10k_ms %.1f\n", b.Elapsed().Seconds()*1000/float64(b.N))
}
