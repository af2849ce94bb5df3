package gossip

import (
	"fmt"
	"strings"
	"testing"
)

// names are the nodes of seats, those that are believed gone with a "?".
func names(seats []seat) string {
	var all []string
	for _, s := range seats {
		name := s.id.node
		if !s.there {
			name += "?"
		}
		all = append(all, name)
	}
	return strings.Join(all, " ")
}

// around is a circle of nodes of one letter in the order of the alphabet.
func around(nodes string) circle {
	var seats []seat
	for _, n := range strings.Fields(nodes) {
		name, gone := strings.CutSuffix(n, "?")
		seats = append([]seat{{mark: mark(name[0]), id: identity{name, 1}, there: !gone}}, seats...)
	}
	return newCircle(seats)
}

func TestEachIsWatchedByTheNextThreeThatAreThere(t *testing.T) {
	for _, tt := range []struct{ circle, self, watching, watched string }{
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
		c, self := around(tt.circle), mark(tt.self[0])
		if got := names(c.watching(self)); got != tt.watching {
			t.Errorf("%s of %q is watched by %q, want %q", tt.self, tt.circle, got, tt.watching)
		}
		if got := names(c.watched(self)); got != tt.watched {
			t.Errorf("%s of %q watches %q, want %q", tt.self, tt.circle, got, tt.watched)
		}
	}
}

func TestWhoIsWatchedBySomebodyIsWatchedByThem(t *testing.T) {
	for gone := range 1 << 8 {
		var nodes []string
		for i := range 8 {
			name := string(rune('a' + i))
			if gone>>i&1 == 1 {
				name += "?"
			}
			nodes = append(nodes, name)
		}
		c := around(strings.Join(nodes, " "))
		var by, of strings.Builder
		for _, a := range c {
			for _, b := range c {
				fmt.Fprintln(&by, contains(c.watching(a.mark), b), a.id.node, b.id.node)
				fmt.Fprintln(&of, contains(c.watched(b.mark), a), a.id.node, b.id.node)
			}
		}
		if by.String() != of.String() {
			t.Fatalf("in %s watchers and watched do not agree", nodes)
		}
	}
}

func contains(seats []seat, s seat) bool {
	for _, o := range seats {
		if o.mark == s.mark {
			return true
		}
	}
	return false
}
