package detector

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"purelb.io/purelb/internal/testing/expect"
)

// names returns the one-letter names of the peers. A "?" follows the name of each peer that counts
// as dead.
func names(peers []Peer) string {
	var all []string
	for _, p := range peers {
		name := string(rune(p.ID))
		if !p.Alive {
			name += "?"
		}
		all = append(all, name)
	}
	return strings.Join(all, " ")
}

// ringOf returns a ring of peers. Their names are letters in alphabetical order.
func ringOf(names string) Ring {
	var peers []Peer
	for _, n := range strings.Fields(names) {
		name, dead := strings.CutSuffix(n, "?")
		peers = append([]Peer{{ID: PeerID(name[0]), Alive: !dead}}, peers...)
	}
	return NewRing(peers)
}

func TestTheNextThreeLivePeersWatch(t *testing.T) {
	for _, tt := range []struct{ ring, self, watchers, watched string }{
		{"a b c d e f", "a", "b c d", "f e d"},
		{"a b c d e f", "e", "f a b", "d c b"},
		{"a b", "a", "b", "b"},
		{"a b c", "b", "c a", "a c"},
		{"a", "a", "", ""},
		{"", "a", "", ""},
		{"b c d", "a", "", ""},
		{"a b? c d e f", "a", "b? c d e", "f e d"},
		{"a b? c? d e f g h", "a", "b? c? d e f", "h g f"},
		{"a b? c? d? e?", "a", "b? c? d? e?", "e? d? c? b?"},
		{"a b? c d e f", "c", "d e f", "b? a f e"},
	} {
		r, self := ringOf(tt.ring), PeerID(tt.self[0])
		expect.Equal(t, fmt.Sprintf("watchers of %s of %q", tt.self, tt.ring), names(r.WatchersOf(self)), tt.watchers)
		expect.Equal(t, fmt.Sprintf("peers that %s of %q watches", tt.self, tt.ring), names(r.WatchedBy(self)), tt.watched)
	}
}

func TestWatchersAndWatchedAgree(t *testing.T) {
	for gone := range 1 << 8 {
		var nodes []string
		for i := range 8 {
			name := string(rune('a' + i))
			if gone>>i&1 == 1 {
				name += "?"
			}
			nodes = append(nodes, name)
		}
		r := ringOf(strings.Join(nodes, " "))
		var by, of strings.Builder
		for _, a := range r {
			for _, b := range r {
				fmt.Fprintln(&by, slices.Contains(r.WatchersOf(a.ID), b), a.ID, b.ID)
				fmt.Fprintln(&of, slices.Contains(r.WatchedBy(b.ID), a), a.ID, b.ID)
			}
		}
		expect.Equal(t, fmt.Sprintf("watchers and watched peers in %s", nodes), by.String(), of.String())
	}
}
