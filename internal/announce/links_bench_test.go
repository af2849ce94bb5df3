package announce

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// BenchmarkManyLinks is the part of a pass that looks at the link of each address: 10,000 addresses
// on a node with the links of 500 pods.
func BenchmarkManyLinks(b *testing.B) {
	node := Node{MarksSupported: true}
	for i := range 500 {
		node.Links = append(node.Links, Link{Name: fmt.Sprintf("veth%03d", i), Index: i + 3, Kind: "veth", Up: true, Carrier: true})
	}
	node.Links = append(node.Links, Link{Name: "eth0", Index: 2, Neighbors: true, Up: true, Carrier: true, MAC: [6]byte{2}})
	ip := netip.MustParseAddr("10.0.0.0")
	var p Plan
	for range 10_000 {
		ip = ip.Next()
		a := Address{Prefix: netip.PrefixFrom(ip, 8), Link: "eth0", Mark: Mark}
		node.Addresses = append(node.Addresses, a)
		p.Decisions = append(p.Decisions, Decision{IP: ip, Where: Local, Address: a})
		p.Wanted = append(p.Wanted, a)
	}
	var began time.Time
	for b.Loop() {
		if began.IsZero() {
			began = time.Now()
		}
		var t Takeovers
		if n := len(Carried(node)); n != len(p.Wanted) {
			b.Fatalf("it carries %d addresses, want %d", n, len(p.Wanted))
		}
		if n := len(t.Sift(began, p, p.Wanted, node).Add); n != len(p.Wanted) {
			b.Fatalf("%d addresses are there, want %d", n, len(p.Wanted))
		}
		Own(node, nil, nil)
		MACs(node)
	}
	fmt.Printf("RESULT links_500_addresses_10k_ms %.1f\n", b.Elapsed().Seconds()*1000/float64(b.N))
}
