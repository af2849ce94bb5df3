package peering_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/peering"
)

// drawState is a small State, of few names, so that two have much in common.
func drawState(t *rapid.T, label string) peering.State {
	number := func(most int) int { return rapid.IntRange(0, most).Draw(t, label) }
	s := peering.State{Global: peering.Global{ASN: uint32(1 + number(1)), Port: 179, Families: []addr.Family{addr.V4}}}
	for i := range 3 {
		name := fmt.Sprint("v", i)
		if number(2) > 0 {
			s.VRFs = append(s.VRFs, peering.VRF{Name: name, RD: fmt.Sprintf("1:%d", number(1))})
		}
		group := fmt.Sprint("g", i)
		if number(2) > 0 {
			s.Groups = append(s.Groups, peering.Group{Name: group, Options: peering.Options{ASN: uint32(1 + number(1))}})
			if number(2) > 0 {
				s.Dynamic = append(s.Dynamic, peering.Dynamic{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i)}), 16), Group: group})
			}
		}
	}
	for i := range 4 {
		if number(3) == 0 {
			continue
		}
		p := peering.Peer{Address: netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), Options: peering.Options{ASN: uint32(1 + number(1))}}
		if len(s.VRFs) > 0 && number(1) > 0 {
			p.VRF = s.VRFs[number(len(s.VRFs)-1)].Name
		}
		s.Peers = append(s.Peers, p)
	}
	for i := range number(2) {
		s.Sets = append(s.Sets, peering.Set{Kind: peering.ASPathSet, Name: fmt.Sprint("s", i), List: []string{fmt.Sprint(number(1))}})
	}
	for i := range number(2) {
		s.Export.Statements = append(s.Export.Statements, peering.Statement{Name: fmt.Sprint(i), Then: peering.Actions{Verdict: peering.Accept}})
	}
	s.Import.Default, s.Export.Default = peering.Accept, peering.Verdict(1+number(1))
	return s
}

var equalStates = cmp.Options{cmpopts.EquateEmpty(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })}

// TestChangesMakeOneStateOfAnother and nothing is left to be done then.
func TestChangesMakeOneStateOfAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wanted := drawState(t, "wanted")
		found := rapid.SampledFrom([]peering.State{{}, drawState(t, "found")}).Draw(t, "there")
		changes := peering.Diff(wanted, found)
		got := found.Applied(changes)
		if diff := cmp.Diff(wanted, got, equalStates); diff != "" {
			t.Fatalf("(-want +got):\n%s\nby %+v", diff, changes)
		}
		if again := peering.Diff(wanted, got); !again.Empty() {
			t.Fatalf("left over: %+v", again)
		}
		if diff := cmp.Diff(changes, peering.Diff(wanted, found), equalStates); diff != "" {
			t.Fatalf("not the same twice: %s", diff)
		}
	})
}

// TestNobodyIsThereWithoutWhatItNeeds carries changes out one by one, in their
// order, and looks at every neighbour after each.
func TestNobodyIsThereWithoutWhatItNeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wanted, found := drawState(t, "wanted"), drawState(t, "found")
		c := peering.Diff(wanted, found)
		s := found
		if c.Restart {
			s = peering.State{Global: c.Global}
		}
		policies := func(s peering.State) string { return fmt.Sprint(s.Sets, s.Import, s.Export) }
		for _, step := range steps(c) {
			s = s.Applied(step)
			for _, p := range s.Peers {
				if p.VRF != "" && !slices.ContainsFunc(s.VRFs, func(v peering.VRF) bool { return v.Name == p.VRF }) {
					t.Fatalf("%s is in %s, which is not there, after %+v", p.Name(), p.VRF, step)
				}
				fresh := !c.Restart && slices.ContainsFunc(found.Peers, func(f peering.Peer) bool { return f.Name() == p.Name() })
				if !fresh && policies(s) != policies(wanted) {
					t.Fatalf("%s came before its policies", p.Name())
				}
				if fresh && policies(s) != policies(wanted) && policies(s) != policies(found) {
					t.Fatalf("%s has policies of nobody", p.Name())
				}
			}
			for _, d := range s.Dynamic {
				if !slices.ContainsFunc(s.Groups, func(g peering.Group) bool { return g.Name == d.Group }) {
					t.Fatalf("%s is of %s, which is not there, after %+v", d.Prefix, d.Group, step)
				}
			}
		}
		for _, gone := range found.Peers {
			if !c.Restart && !slices.ContainsFunc(wanted.Peers, func(p peering.Peer) bool { return p.Name() == gone.Name() }) &&
				!slices.ContainsFunc(c.RemovePeers, func(p peering.Peer) bool { return p.Name() == gone.Name() }) {
				t.Fatalf("%s stays", gone.Name())
			}
		}
	})
}

// steps are c in pieces, in the order of its fields.
func steps(c peering.Changes) []peering.Changes {
	return []peering.Changes{
		{RemoveDynamic: c.RemoveDynamic}, {RemovePeers: c.RemovePeers}, {Policies: c.Policies},
		{RemoveGroups: c.RemoveGroups}, {RemoveVRFs: c.RemoveVRFs}, {AddVRFs: c.AddVRFs},
		{AddGroups: c.AddGroups}, {UpdateGroups: c.UpdateGroups},
		{AddPeers: c.AddPeers}, {UpdatePeers: c.UpdatePeers}, {AddDynamic: c.AddDynamic},
	}
}

func TestWhatNeedsANewServerSaysSo(t *testing.T) {
	base := peering.Global{ASN: 1, RouterID: netip.MustParseAddr("10.0.0.1"), Port: 179}
	for name, change := range map[string]func(*peering.Global){
		"asn":           func(g *peering.Global) { g.ASN = 2 },
		"router ID":     func(g *peering.Global) { g.RouterID = netip.MustParseAddr("10.0.0.2") },
		"port":          func(g *peering.Global) { g.Port = -1 },
		"listen":        func(g *peering.Global) { g.Listen = ips("192.0.2.1") },
		"families":      func(g *peering.Global) { g.Families = []addr.Family{addr.V6} },
		"device":        func(g *peering.Global) { g.Device = "red" },
		"multipath":     func(g *peering.Global) { g.Multipath = true },
		"confederation": func(g *peering.Global) { g.Confederation = &peering.Confederation{Identifier: 9} },
		"selection":     func(g *peering.Global) { g.Selection.AlwaysCompareMED = true },
	} {
		wanted := base
		change(&wanted)
		peers := []peering.Peer{{Interface: "eth1"}}
		c := peering.Diff(peering.State{Global: wanted, Peers: peers}, peering.State{Global: base, Peers: peers})
		if !c.Restart || len(c.AddPeers) != 1 || c.Policies == nil || c.Empty() {
			t.Errorf("%s: %+v", name, c)
		}
	}
}
