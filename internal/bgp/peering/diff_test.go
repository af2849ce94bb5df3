package peering_test

import (
	"maps"
	"net/netip"
	"slices"
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

// server holds the neighbors after the changes, by their names.
type server map[string]peering.Peer

// change is a kind of change of a neighbor.
type change int

const (
	add change = iota
	remove
	update
)

// apply makes changes of one kind. A neighbor that is added must not exist, and any other must exist.
func (s server) apply(t *rapid.T, c change, list []peering.Peer) {
	for _, p := range list {
		name := p.Name()
		if _, there := s[name]; there != (c != add) {
			t.Fatalf("%v is changed by %d, and it exists: %v", name, c, there)
		}
		if s[name] = p; c == remove {
			delete(s, name)
		}
	}
}

// carryOut creates a server from found, and applies the changes one by one.
func carryOut(t *rapid.T, found peering.State, c peering.Changes) server {
	s := server{}
	s.apply(t, add, found.Peers)
	s.apply(t, remove, c.Remove)
	s.apply(t, remove, c.Replace)
	s.apply(t, add, c.Replace)
	s.apply(t, add, c.Add)
	s.apply(t, update, c.Update)
	return s
}

var equalStates = cmp.Options{
	cmpopts.EquateEmpty(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
}

func TestChangesTurnOneStateIntoAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wanted := drawState(t, "wanted")
		found := rapid.SampledFrom([]peering.State{{}, drawState(t, "found")}).Draw(t, "there")
		changes := peering.Diff(wanted.Peers, found.Peers)
		s := carryOut(t, found, changes)
		got := peering.State{Peers: slices.SortedFunc(maps.Values(s), func(a, b peering.Peer) int { return a.Address.Compare(b.Address) })}
		if diff := cmp.Diff(wanted.Peers, got.Peers, equalStates); diff != "" {
			t.Fatalf("the state after the changes (-want +got):\n%s\nchanges %+v", diff, changes)
		}
		if again := peering.Diff(wanted.Peers, got.Peers); !cmp.Equal(again, peering.Changes{}, equalStates) {
			t.Fatalf("after the changes, the state still differs by %+v", again)
		}
		if diff := cmp.Diff(changes, peering.Diff(wanted.Peers, found.Peers), equalStates); diff != "" {
			t.Fatalf("the second call of Diff returns other changes: %s", diff)
		}
	})
}

// TestSessionsEndOnlyForChangesThatNeedIt makes a change of each kind and compares
// which neighbors are removed, added and updated.
func TestSessionsEndOnlyForChangesThatNeedIt(t *testing.T) {
	base := func() peering.State {
		o := func() peering.Options { return peering.Options{ASN: 1, Families: []peering.Family{{Family: addr.V4}}} }
		return peering.State{Peers: []peering.Peer{{Interface: "eth1", Options: o()}, {Interface: "eth2", Options: o()}}}
	}
	const one, two = " peer %eth1", " peer %eth2"
	for _, tt := range []struct {
		name   string
		change func(*peering.State)
		want   string
	}{
		{"nothing", func(*peering.State) {}, ""},
		{"the path in the spec", func(s *peering.State) { s.Peers[0].Path = "b" }, "~" + one},
		{"the description", func(s *peering.State) { s.Peers[0].Description = "rack" }, "~" + one},
		{"the warning of a limit", func(s *peering.State) { s.Peers[0].Families[0].WarnPercent = 80 }, "~" + one},
		{"BFD", func(s *peering.State) { s.Peers[0].BFD = &peering.BFD{} }, "~" + one},
		{"timers", func(s *peering.State) { s.Peers[0].Timers.Hold = 9 }, "~" + one},
		{"a limit", func(s *peering.State) { s.Peers[0].Families[0].MaxPrefixes = 9 }, "~" + one},
		{"a next hop", func(s *peering.State) { s.Peers[0].Mute = []addr.Family{addr.V6} }, "~" + one},
		{"another router on the link", func(s *peering.State) { s.Peers[0].Address = netip.MustParseAddr("fe80::1%eth1") }, "-+" + one},
		{"an AS", func(s *peering.State) { s.Peers[0].ASN = 2 }, "-+" + one},
		{"a password", func(s *peering.State) { s.Peers[0].Password = "x" }, "-+" + one},
		{"no neighbors", func(s *peering.State) { *s = peering.State{} }, "-" + one + two},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wanted := base()
			tt.change(&wanted)
			if got := changes(peering.Diff(wanted.Peers, base().Peers)); got != tt.want {
				t.Errorf("the changes are %q, want %q", got, tt.want)
			}
		})
	}
}

func TestChangesThatEndSessions(t *testing.T) {
	one := peering.Peer{Address: netip.MustParseAddr("192.0.2.1"), Options: peering.Options{ASN: 1}}
	found := peering.State{Peers: []peering.Peer{one}}
	other := found
	other.Global.ASN = 2
	down, moved := one, one
	down.AdminDown, moved.ASN = true, 2
	for _, tt := range []struct {
		name   string
		wanted peering.State
		want   bool
	}{
		{"nothing", found, false},
		{"another AS", other, true},
		{"another AS of the neighbor", peering.State{Peers: []peering.Peer{moved}}, true},
		{"the neighbor is held down", peering.State{Peers: []peering.Peer{down}}, false},
	} {
		there := []peering.NeighborStatus{{Address: one.Address, State: peering.Established}}
		if got := peering.Interrupts(tt.wanted, found, there); got != tt.want {
			t.Errorf("%s: the change ends sessions: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// changes prints in one line the neighbors that are removed, replaced, added, and updated without the end of
// the session.
func changes(c peering.Changes) string {
	return names("-", c.Remove) + names("-+", c.Replace) + names("+", c.Add) + names("~", c.Update)
}

// names prints the names of a list after a sign.
func names(sign string, list []peering.Peer) string {
	text := ""
	for _, p := range list {
		text += " peer " + p.Name()
	}
	return when(text != "", sign+text)
}
