package election_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"purelb.io/purelb/internal/nodes/election"
)

// on returns an eligible member with these subnets.
func on(node string, subnets ...string) election.Member {
	m := election.Member{Node: node, Eligible: true}
	for _, s := range subnets {
		m.Subnets = append(m.Subnets, netip.MustParsePrefix(s))
	}
	return m
}

func barred(m election.Member) election.Member {
	m.Eligible = false
	return m
}

func unproven(m election.Member) election.Member {
	m.Unproven = true
	return m
}

func TestChoose(t *testing.T) {
	all := func(subnets ...string) []election.Member {
		return []election.Member{on("node-a", subnets...), on("node-b", subnets...), on("node-c", subnets...)}
	}
	for _, tt := range []struct {
		name    string
		ip      string
		members []election.Member
		holder  string
		want    election.Choice
	}{
		{"the lowest hash wins", "192.168.1.100", all("192.168.1.0/24"), "", election.Choice{Node: "node-c", Reason: "hash"}},
		{"the holder keeps it", "192.168.1.100", all("192.168.1.0/24"), "node-a", election.Choice{Node: "node-a", Reason: "holder"}},
		{"a dead holder loses it", "192.168.1.100", all("192.168.1.0/24"), "node-d", election.Choice{Node: "node-c", Reason: "hash"}},
		{"an ineligible holder loses it", "192.168.1.100", []election.Member{barred(on("node-a", "192.168.1.0/24")), on("node-b", "192.168.1.0/24")}, "node-a",
			election.Choice{Node: "node-b", Reason: "hash"}},
		{"a holder without the subnet loses it", "2001:db8::1", []election.Member{on("node-a", "2001:db8:1::/64"), on("node-b", "2001:db8::/64")}, "node-a",
			election.Choice{Node: "node-b", Reason: "hash"}},
		{"an unproven node is not chosen", "192.168.1.100", []election.Member{on("node-a", "192.168.1.0/24"), unproven(on("node-c", "192.168.1.0/24"))}, "",
			election.Choice{Node: "node-a", Reason: "hash"}},
		{"an unproven holder keeps it", "192.168.1.100", []election.Member{unproven(on("node-a", "192.168.1.0/24")), on("node-b", "192.168.1.0/24")}, "node-a",
			election.Choice{Node: "node-a", Reason: "holder"}},
		{"an unproven node is not even the last resort", "192.168.1.100", []election.Member{unproven(on("node-a", "192.168.1.0/24"))}, "",
			election.Choice{Reason: "noCandidates"}},
		{"only nodes of the subnet count", "192.168.1.100", []election.Member{on("node-a", "192.168.1.0/24"), on("node-b", "192.168.2.0/24"), on("node-c", "192.168.1.128/25")}, "",
			election.Choice{Node: "node-a", Reason: "hash"}},
		{"masks of any length count", "192.168.1.100", []election.Member{on("node-a", "0.0.0.0/0"), on("node-b", "192.168.0.0/16"), on("node-c", "192.168.1.100/32")}, "",
			election.Choice{Node: "node-c", Reason: "hash"}},
		{"a subnet may be written as an address in it", "192.168.1.100", []election.Member{on("node-a", "192.168.1.7/24")}, "",
			election.Choice{Node: "node-a", Reason: "hash"}},
		{"an address may be written as IPv4-mapped", "::ffff:192.168.1.100", all("192.168.1.0/24"), "node-b",
			election.Choice{Node: "node-b", Reason: "holder"}},
		{"an IPv4-mapped address without a holder", "::ffff:192.168.1.100", all("192.168.1.0/24"), "", election.Choice{Node: "node-c", Reason: "hash"}},
		{"the families are separate", "192.168.1.100", all("::/0"), "node-a", election.Choice{Reason: "noCandidates"}},
		{"no node has the subnet", "192.168.1.100", all("192.168.2.0/24"), "", election.Choice{Reason: "noCandidates"}},
		{"there are no members", "2001:db8::1", nil, "", election.Choice{Reason: "noCandidates"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := election.NewView(tt.members).Choose(ip(tt.ip), tt.holder, election.Preference{}); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// A View answers by the definition: the holder if it is a candidate, otherwise the winner of all
// candidates.
func TestViewMatchesItsDefinition(t *testing.T) {
	aMember := rapid.Custom(func(t *rapid.T) election.Member {
		m := election.Member{
			Node:     rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "node"),
			Eligible: rapid.IntRange(0, 3).Draw(t, "eligible") > 0,
			Unproven: rapid.IntRange(0, 3).Draw(t, "unproven") == 0,
		}
		for range rapid.IntRange(0, 3).Draw(t, "subnets") {
			a := anIP.Draw(t, "subnet")
			m.Subnets = append(m.Subnets, netip.PrefixFrom(a, rapid.IntRange(a.BitLen()-9, a.BitLen()).Draw(t, "bits")))
		}
		return m
	})
	rapid.Check(t, func(t *rapid.T) {
		members := rapid.SliceOfN(aMember, 0, 10).Draw(t, "members")
		holder := rapid.SampledFrom([]string{"", "a", "b", "z"}).Draw(t, "holder")
		a := anIP.Draw(t, "ip")

		var candidates []string
		isCandidate := map[string]bool{}
		for _, m := range members {
			for _, s := range m.Subnets {
				if m.Eligible && s.Contains(a) {
					isCandidate[m.Node] = true
					if !m.Unproven {
						candidates = append(candidates, m.Node)
					}
				}
			}
		}
		want := election.Choice{Node: election.Winner(a, candidates), Reason: election.ReasonHash}
		switch {
		case isCandidate[holder]:
			want = election.Choice{Node: holder, Reason: election.ReasonHolder}
		case want.Node == "":
			want.Reason = election.ReasonNoCandidates
		}
		v := election.NewView(members)
		if got := v.Choose(a, holder, election.Preference{}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if got := v.IsCandidate(holder, a); got != isCandidate[holder] {
			t.Errorf("%q is a candidate: %t", holder, got)
		}
	})
}

// cluster returns n members on a number of subnets of both families.
func cluster(n, subnets int) []election.Member {
	var members []election.Member
	for i := range n {
		s := i % subnets
		members = append(members, on(fmt.Sprintf("node-%04d", i), fmt.Sprintf("10.%d.%d.0/24", s/256, s%256), fmt.Sprintf("2001:db8:0:%x::/64", s)))
	}
	return members
}

// services returns n addresses, spread over the subnets of a cluster, with alternating families.
func services(n, subnets int) (all []netip.Addr) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		s, host := random.IntN(subnets), byte(random.IntN(254)+1)
		a := netip.AddrFrom4([4]byte{10, byte(s / 256), byte(s), host})
		if i%2 == 1 {
			a = netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 6: byte(s / 256), 7: byte(s), 15: host})
		}
		all = append(all, a)
	}
	return all
}

// BenchmarkChoose chooses for 10,000 addresses among 1,000 members in three cases:
// no node holds an address (a new cluster), all addresses are held (nothing
// happens), and one node has just died.
func BenchmarkChoose(b *testing.B) {
	for _, subnets := range []int{1, 40, 1000} {
		members, addresses := cluster(1000, subnets), services(10_000, subnets)
		view := election.NewView(members)
		holders := make([]string, len(addresses))
		for i, a := range addresses {
			holders[i] = view.Choose(a, "", election.Preference{}).Node
		}
		run := func(name string, view election.View, holder func(i int) string) {
			b.Run(fmt.Sprintf("%s/%d subnets", name, subnets), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					for i, a := range addresses {
						view.Choose(a, holder(i), election.Preference{})
					}
				}
			})
		}
		run("unheld", view, func(int) string { return "" })
		run("held", view, func(i int) string { return holders[i] })
		run("one died", election.NewView(members[1:]), func(i int) string { return holders[i] })
	}
}
