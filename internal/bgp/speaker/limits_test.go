package speaker

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

const limited = `{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001},
	afiSafis: [{family: ipv4-unicast, prefixLimit: {maxPrefixes: 1000}}]}]}`

// overLimit is a server that has ended the session with a neighbor for its prefixes.
func overLimit(s *fakeServer) {
	established("192.0.2.1", 65001)(s)
	n := s.neighbors["192.0.2.1"]
	n.State, n.OverLimit = peering.Idle, true
	s.neighbors["192.0.2.1"] = n
}

// barred returns the neighbors that were barred and admitted since the last call.
func (w *world) barred() string {
	var all string
	w.server.change(func(s *fakeServer) { all, s.barred = strings.Join(s.barred, ", "), nil })
	return all
}

func TestANeighborAboveItsLimitIsTriedAgain(t *testing.T) {
	inWorld(t, limited, nil, func(w *world) {
		w.serves(overLimit)
		expect.Equal(t, "barred neighbors at first", w.barred(), "bar 192.0.2.1")
		expect.Contains(t, "events", w.reported(), "Warning PrefixLimitExceeded Node node-a has ended the session with 192.0.2.1 for 5m0s: more prefixes than its maxPrefixes were received")
		expect.Contains(t, "last error", w.reports.last().Status.Neighbors[0].LastError, "more prefixes than its maxPrefixes were received; it is tried again at ")
		if w.reports.last().Status.Healthy {
			t.Error("the node is healthy without its neighbor")
		}
		pass(pause - 10*time.Second)
		expect.Equal(t, "barred neighbors during the pause", w.barred(), "")
		pass(20 * time.Second)
		expect.Equal(t, "barred neighbors after the pause", w.barred(), "admit 192.0.2.1")
		w.serves(overLimit)
		expect.Equal(t, "barred neighbors when it is above its limit again", w.barred(), "bar 192.0.2.1")
		w.edit(strings.Replace(limited, "1000", "2000", 1))
		expect.Equal(t, "barred neighbors with another limit", w.barred(), "admit 192.0.2.1")
	})
}

func TestAPenaltyEnds(t *testing.T) {
	now := time.Unix(1000, 0)
	one := peering.Peer{Address: netip.MustParseAddr("192.0.2.1"), Options: peering.Options{Families: []peering.Family{{Family: addr.V4, MaxPrefixes: 1}}}}
	down, wider := one, one
	down.AdminDown, wider.Families = true, []peering.Family{{Family: addr.V4, MaxPrefixes: 5}}
	for _, tt := range []struct {
		name  string
		peers []peering.Peer
		want  string
		left  int
	}{
		{"while the neighbor is absent", []peering.Peer{one}, "wait", 1},
		{"with another limit", []peering.Peer{wider}, "admit ", 0},
		{"when the neighbor is held down", []peering.Peer{down}, "", 0},
		{"when the neighbor is not wanted", nil, "", 0},
	} {
		ps := penalties{}
		ps.judge(now, peering.State{Peers: []peering.Peer{one}}, []peering.NeighborStatus{{Address: one.Address, OverLimit: true}})
		_, admit, due := ps.judge(now, peering.State{Peers: tt.peers}, nil)
		if got := strings.Repeat("admit ", len(admit)) + map[bool]string{true: "wait"}[!due.IsZero()]; got != tt.want {
			t.Errorf("%s, the judgment is %q, want %q", tt.name, got, tt.want)
		}
		if len(ps) != tt.left {
			t.Errorf("%s, there are %d penalties, want %d", tt.name, len(ps), tt.left)
		}
	}
}

func TestAPauseSurvivesTheSession(t *testing.T) {
	inWorld(t, limited, nil, func(w *world) {
		w.serves(overLimit)
		expect.Equal(t, "barred neighbors at first", w.barred(), "bar 192.0.2.1")
		for _, change := range []string{"peerAsn: 65001}", "peerAsn: 65002}"} {
			w.edit(strings.Replace(limited, "peerAsn: 65001}", change, 1))
		}
		w.edit("{global: {asn: 65000, routerID: nonsense}, neighbors: []}") // not in effect
		for _, p := range w.server.peers() {
			if !p.AdminDown {
				t.Errorf("%s may connect", p.Name())
			}
		}
		pass(pause)
		expect.Equal(t, "barred neighbors after the pause", w.barred(), "admit 192.0.2.1")
	})
}

func TestANeighborThatIsHeldDownIsNotAdmitted(t *testing.T) {
	inWorld(t, limited, nil, func(w *world) {
		w.serves(overLimit)
		if got := w.barred(); !strings.HasPrefix(got, "bar 192.0.2.1") {
			t.Fatalf("at first: %q", got)
		}
		w.edit(strings.Replace(limited, "peerAsn: 65001", "peerAsn: 65001, adminDown: true", 1))
		w.server.change(func(*fakeServer) {}) // the neighbors are read again
		pass(2 * pause)
		expect.Equal(t, "barred neighbors when the neighbor is held down", w.barred(), "")
	})
}
