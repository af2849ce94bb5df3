package linux

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/testing/expect"
)

// mostOverNFT is how much longer than `nft -f` the table may take, and mostOverNoTable how much longer a
// packet may take with a table of 10,000 addresses.
const mostOverNFT, mostOverNoTable = 1.5, 1.5

// BenchmarkGuard10k measures a table with 10,000 addresses, half of each family: to make it, compared with
// `nft -f`, to find it as wanted, to change one address, and what a packet costs that is for no Service,
// on a node that follows connections already.
func BenchmarkGuard10k(b *testing.B) {
	newWorld(b)
	s := newStack(b)
	var closed []netip.Addr
	var script strings.Builder
	script.WriteString("add table inet floor\n")
	for family, first := range map[string]string{"ipv4_addr": "198.18.0.1/32", "ipv6_addr": "2001:db8::1/128"} {
		fmt.Fprintf(&script, "add set inet floor %s { type %s; }\nadd element inet floor %s { ", family, family, family)
		for _, a := range block("kube-lb0", first, 5000) {
			closed = append(closed, a.Prefix.Addr())
			fmt.Fprintf(&script, "%s, ", a.Prefix.Addr())
		}
		script.WriteString("}\n")
	}
	nft(b, "table inet kube-proxy {\n chain input { type filter hook input priority -110; ct state invalid drop; }\n}\n") // follows connections
	const turns = 5
	var floor, all, none, one, bare, behind time.Duration
	for b.Loop() {
		for range turns {
			floor += took(func() { nft(b, script.String()) })
			nft(b, "delete table inet floor")
			bare += ofPackets(b)
			all += took(func() { expect.NoError(b, s.Guard(b.Context(), closed)) })
			expect.NoError(b, s.Guard(b.Context(), closed)) // reads what it wrote
			none += took(func() { expect.NoError(b, s.Guard(b.Context(), closed)) })
			one += took(func() { expect.NoError(b, s.Guard(b.Context(), closed[1:])) })
			behind += ofPackets(b)
			expect.NoError(b, s.Guard(b.Context(), nil))
		}
	}
	ratio, packet := all.Seconds()/floor.Seconds(), behind.Seconds()/bare.Seconds()
	fmt.Printf("RESULT guard_10k_vs_nft %.2f x\n", ratio)
	fmt.Printf("RESULT guard_10k_unchanged_ms %.1f ms\n", ms(none)/turns)
	fmt.Printf("RESULT guard_10k_one_changed_ms %.1f ms\n", ms(one)/turns)
	fmt.Printf("RESULT guard_10k_packet_vs_none %.2f x\n", packet)
	if ratio > mostOverNFT {
		b.Errorf("a table of 10,000 addresses takes %.2f times as long as with nft -f, want at most %.1f", ratio, mostOverNFT)
	}
	if packet > mostOverNoTable {
		b.Errorf("a packet takes %.2f times as long as without the table, want at most %.2f", packet, mostOverNoTable)
	}
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

func took(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// ofPackets returns how long many packets of UDP take to the node itself.
func ofPackets(b *testing.B) time.Duration {
	b.Helper()
	receiver, err := net.ListenPacket("udp", "127.0.0.1:0")
	expect.NoError(b, err)
	defer func() { _ = receiver.Close() }()
	sender, err := net.Dial("udp", receiver.LocalAddr().String())
	expect.NoError(b, err)
	defer func() { _ = sender.Close() }()
	packet := make([]byte, 64)
	return took(func() {
		for range 20_000 {
			if _, err := sender.Write(packet); err != nil {
				b.Fatal(err)
			}
			if _, _, err := receiver.ReadFrom(packet); err != nil {
				b.Fatal(err)
			}
		}
	})
}
