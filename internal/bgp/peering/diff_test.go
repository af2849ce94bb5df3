package peering_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
)

// drawState draws a small State with few names, so that two States have much in common.
func drawState(t *rapid.T, label string) peering.State {
	number := func(most int) int { return rapid.IntRange(0, most).Draw(t, label) }
	var s peering.State
	for i := range 3 {
		group := fmt.Sprint("g", i)
		if number(2) == 0 {
			continue
		}
		s.Groups = append(s.Groups, peering.Group{Name: group, Options: peering.Options{ASN: uint32(1 + number(1)), Description: fmt.Sprint(number(1))}})
		if number(2) > 0 {
			s.Dynamic = append(s.Dynamic, peering.Dynamic{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(number(2) * 10)}), 16+i), Group: group})
		}
	}
	for i := range 4 {
		if number(3) == 0 {
			continue
		}
		p := peering.Peer{Address: netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), Options: peering.Options{
			ASN: uint32(1 + number(1)), Timers: peering.Timers{Hold: time.Duration(number(1))},
		}}
		s.Peers = append(s.Peers, p)
	}
	return s
}

// server is the result of the applied changes.
type server struct {
	peers   map[string]peering.Peer
	groups  map[string]peering.Group
	dynamic map[netip.Prefix]peering.Dynamic
}

// wrong returns which part refers to a part that does not exist, or "".
func (s server) wrong() string {
	for _, d := range s.dynamic {
		if _, there := s.groups[d.Group]; !there {
			return d.Prefix.String() + " refers to a group that does not exist"
		}
	}
	return ""
}

// change is a kind of change of a part.
type change int

const (
	add change = iota
	remove
	update
)

// apply makes changes of one kind to a part. An element that is added must not exist, and any other
// element must exist.
func apply[K comparable, T any](t *rapid.T, s server, c change, m map[K]T, list []T, key func(T) K) {
	for _, e := range list {
		k := key(e)
		if _, there := m[k]; there != (c != add) {
			t.Fatalf("%v is changed by %d, and it exists: %v", k, c, there)
		}
		if m[k] = e; c == remove {
			delete(m, k)
		}
		if wrong := s.wrong(); wrong != "" {
			t.Fatalf("%s, after the change %d of %v", wrong, c, k)
		}
	}
}

// carryOut creates a server from found, and applies the changes one by one.
func carryOut(t *rapid.T, found peering.State, c peering.Changes) server {
	s := server{map[string]peering.Peer{}, map[string]peering.Group{}, map[netip.Prefix]peering.Dynamic{}}
	dynamic := func(d peering.Dynamic) netip.Prefix { return d.Prefix }
	apply(t, s, add, s.groups, found.Groups, groupName)
	apply(t, s, add, s.dynamic, found.Dynamic, dynamic)
	apply(t, s, add, s.peers, found.Peers, peering.Peer.Name)

	apply(t, s, remove, s.peers, c.RemovePeers, peering.Peer.Name)
	apply(t, s, remove, s.dynamic, c.RemoveDynamic, dynamic)
	apply(t, s, remove, s.groups, c.RemoveGroups, groupName)
	apply(t, s, add, s.groups, c.AddGroups, groupName)
	apply(t, s, add, s.peers, c.AddPeers, peering.Peer.Name)
	apply(t, s, add, s.dynamic, c.AddDynamic, dynamic)
	apply(t, s, update, s.groups, c.UpdateGroups, groupName)
	apply(t, s, update, s.dynamic, c.UpdateDynamic, dynamic)
	apply(t, s, update, s.peers, c.UpdatePeers, peering.Peer.Name)
	return s
}

var equalStates = cmp.Options{
	cmpopts.EquateEmpty(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
}

// TestChangesTurnOneStateIntoAnother also checks each step: no part may refer to a part that does
// not exist.
func TestChangesTurnOneStateIntoAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wanted := drawState(t, "wanted")
		found := rapid.SampledFrom([]peering.State{{}, drawState(t, "found")}).Draw(t, "there")
		changes := peering.Diff(wanted, found)
		s := carryOut(t, found, changes)
		got := peering.State{
			Peers:   slices.SortedFunc(maps.Values(s.peers), func(a, b peering.Peer) int { return a.Address.Compare(b.Address) }),
			Groups:  slices.Collect(maps.Values(s.groups)),
			Dynamic: slices.Collect(maps.Values(s.dynamic)),
		}
		if diff := cmp.Diff(wanted.Peers, got.Peers, equalStates); diff != "" {
			t.Fatalf("the state after the changes (-want +got):\n%s\nchanges %+v", diff, changes)
		}
		if again := peering.Diff(wanted, got); !cmp.Equal(again, peering.Changes{}, equalStates) {
			t.Fatalf("after the changes, the state still differs by %+v", again)
		}
		if diff := cmp.Diff(changes, peering.Diff(wanted, found), equalStates); diff != "" {
			t.Fatalf("the second call of Diff returns other changes: %s", diff)
		}
	})
}

// TestSessionsEndOnlyForChangesThatNeedIt makes a change of each kind and compares
// which neighbors are removed, added and updated.
func TestSessionsEndOnlyForChangesThatNeedIt(t *testing.T) {
	base := func() peering.State {
		o := func() peering.Options { return peering.Options{ASN: 1, Families: []peering.Family{{Family: addr.V4}}} }
		return peering.State{
			Groups:  []peering.Group{{Name: "tor", Options: o()}},
			Dynamic: []peering.Dynamic{{Prefix: netip.MustParsePrefix("10.0.0.0/8"), Group: "tor"}},
			Peers:   []peering.Peer{{Interface: "eth1", Options: o()}, {Interface: "eth2", Options: o()}},
		}
	}
	const one, two, all = " peer %eth1", " peer %eth2", " dynamic 10.0.0.0/8 group tor"
	for _, tt := range []struct {
		name   string
		change func(*peering.State)
		want   string
	}{
		{"nothing", func(*peering.State) {}, ""},
		{"the path in the spec", func(s *peering.State) {
			s.Groups[0].Path, s.Dynamic[0].Path = "b", "c"
		}, ""},
		{"the description of a group", func(s *peering.State) { s.Groups[0].Description = "rack" }, ""},
		{"BFD of a group", func(s *peering.State) { s.Groups[0].BFD = &peering.BFD{} }, ""},
		{"the warning of a limit of a group", func(s *peering.State) { s.Groups[0].Families[0].WarnPercent = 80 }, ""},
		{"BFD", func(s *peering.State) { s.Peers[0].BFD = &peering.BFD{} }, "~" + one},
		{"timers", func(s *peering.State) { s.Peers[0].Timers.Hold = 9 }, "~" + one},
		{"a limit", func(s *peering.State) { s.Peers[0].Families[0].MaxPrefixes = 9 }, "~" + one},
		{"a next hop", func(s *peering.State) { s.Peers[0].Mute = []addr.Family{addr.V6} }, "~" + one},
		{"a link-local address", func(s *peering.State) { s.Peers[0].LinkLocal = netip.MustParseAddr("fe80::1") }, "~" + one},
		{"an AS", func(s *peering.State) { s.Peers[0].ASN = 2 }, "-" + one + " +" + one},
		{"a password", func(s *peering.State) { s.Peers[0].Password = "x" }, "-" + one + " +" + one},
		{"additional paths", func(s *peering.State) { s.Peers[0].Families[0].AddPathsReceive = true }, "-" + one + " +" + one},
		{"a group", func(s *peering.State) { s.Groups[0].Password = "x" }, "-" + all + " + group tor dynamic 10.0.0.0/8"},
		{"another group", func(s *peering.State) {
			s.Groups = append(s.Groups, peering.Group{Name: "spine"})
			s.Dynamic[0].Group = "spine"
		}, "- dynamic 10.0.0.0/8 + group spine dynamic 10.0.0.0/8"},
		{"no neighbors", func(s *peering.State) { *s = peering.State{} }, "-" + one + two + all},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wanted := base()
			tt.change(&wanted)
			if got := changes(peering.Diff(wanted, base())); got != tt.want {
				t.Errorf("the changes are %q, want %q", got, tt.want)
			}
		})
	}
}

func TestChangesThatEndSessions(t *testing.T) {
	one := peering.Peer{Address: netip.MustParseAddr("192.0.2.1"), Options: peering.Options{ASN: 1}}
	named := peering.State{Peers: []peering.Peer{one}}
	tor := peering.State{
		Groups:  []peering.Group{{Name: "tor", Options: peering.Options{ASN: 1}}},
		Dynamic: []peering.Dynamic{{Prefix: netip.MustParsePrefix("192.0.2.0/24"), Group: "tor"}},
	}
	both, held, other := tor, tor, named
	other.Global.ASN = 2
	both.Peers = named.Peers
	down := one
	down.AdminDown = true
	held.Peers = []peering.Peer{down}
	for _, tt := range []struct {
		name          string
		wanted, found peering.State
		dynamic, want bool
	}{
		{"nothing", named, named, false, false},
		{"another AS", other, named, false, true},
		{"a dynamic neighbor becomes a named one", both, tor, true, true},
		{"a dynamic neighbor is held down", held, tor, true, false},
	} {
		there := []peering.NeighborStatus{{Address: one.Address, State: peering.Established, Dynamic: tt.dynamic}}
		if got := peering.Interrupts(tt.wanted, tt.found, there); got != tt.want {
			t.Errorf("%s: the change ends sessions: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// changes prints in one line the neighbors that are removed, added, and updated without the end
// of the session.
func changes(c peering.Changes) string {
	line := func(sign string, all ...string) string {
		all = slices.DeleteFunc(all, func(one string) bool { return one == "" })
		return when(len(all) > 0, sign+strings.Join(all, ""))
	}
	gone := line("-", names(" peer ", c.RemovePeers, peering.Peer.Name), names(" dynamic ", c.RemoveDynamic, prefixOf),
		names(" group ", c.RemoveGroups, groupName))
	come := line("+", names(" group ", c.AddGroups, groupName),
		names(" dynamic ", c.AddDynamic, prefixOf), names(" peer ", c.AddPeers, peering.Peer.Name))
	return gone + when(gone != "" && come != "", " ") + come + line("~", names(" peer ", c.UpdatePeers, peering.Peer.Name))
}

// names prints the names of a list, each after a word.
func names[T any](word string, list []T, name func(T) string) string {
	text := ""
	for _, e := range list {
		text += word + name(e)
	}
	return text
}

func groupName(g peering.Group) string  { return g.Name }
func prefixOf(d peering.Dynamic) string { return d.Prefix.String() }
