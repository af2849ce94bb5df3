package speaker

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/peering"
)

var someone = netip.MustParseAddr("192.0.2.1")

const limited = `{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001},
	afiSafis: [{family: ipv4-unicast, prefixLimit: {maxPrefixes: 1000}}]}]}`

// announcing gives the server a session with a neighbor that announces this many routes.
func announcing(received, accepted uint32) func(*fakeServer) {
	return func(s *fakeServer) {
		n := s.neighbors["192.0.2.1"]
		if n.State != peering.Established {
			established("192.0.2.1", 65001)(s)
			n = s.neighbors["192.0.2.1"]
		}
		n.Received, n.Accepted = map[addr.Family]uint32{addr.V4: received}, map[addr.Family]uint32{addr.V4: accepted}
		s.neighbors["192.0.2.1"] = n
	}
}

// barred returns the neighbors that were barred and admitted since the last call.
func (w *world) barred() string {
	var all string
	w.server.change(func(s *fakeServer) { all, s.barred = strings.Join(s.barred, ", "), nil })
	return all
}

func TestRoutesOfOtherNodesDoNotCount(t *testing.T) {
	inWorld(t, limited, nil, func(w *world) {
		w.server.change(announcing(5000, 1000))
		pass(5 * time.Minute)
		want(t, "what is done", w.barred(), "")
		if strings.Contains(w.logged(), "prefixLimitNear") {
			t.Error("there is a warning that nobody asked for")
		}
		w.server.change(announcing(5001, 1001))
		settle()
		want(t, "what is done about one more", w.barred(), "bar 192.0.2.1: 1001 IPv4 prefixes were received, and 1000 are allowed")
	})
}

func TestANeighborThatAnnouncedTooMuchIsTriedEverMoreSeldom(t *testing.T) {
	inWorld(t, limited, nil, func(w *world) {
		w.server.change(announcing(2000, 2000))
		settle()
		want(t, "at first", w.barred(), "bar 192.0.2.1: 2000 IPv4 prefixes were received, and 1000 are allowed")
		if told := w.told(); !strings.Contains(told, "Warning PrefixLimitExceeded Node node-a has ended the session with 192.0.2.1 for 1m0s: 2000 IPv4 prefixes") {
			t.Error(told)
		}
		if e := w.reports.last().Status.Neighbors[0].LastError; !strings.Contains(e, "2000 IPv4 prefixes were received, and 1000 are allowed; it is tried again at ") {
			t.Error(e)
		}
		if w.reports.last().Status.Healthy {
			t.Error("the node is healthy without its neighbor")
		}
		for _, minutes := range []int{1, 2, 4, 8, 16, 30, 30} {
			pass(time.Duration(minutes)*time.Minute - 10*time.Second)
			want(t, "before the pause is over", w.barred(), "")
			pass(8 * time.Second) // as long as settle before
			pass(2*time.Second + 2*calm)
			if got := w.barred(); !strings.HasPrefix(got, "admit 192.0.2.1, bar 192.0.2.1: 2000") {
				t.Errorf("after %d minutes: %q", minutes, got)
			}
		}
	})
}

func TestANeighborThatKeepsToItsLimitIsForgiven(t *testing.T) {
	now := time.Unix(1000, 0)
	ps := penalties{}
	state := peering.State{Peers: []peering.Peer{{
		Address: someone, Options: peering.Options{Families: []peering.Family{{Family: addr.V4, MaxPrefixes: 1}}},
	}}}
	n := peering.NeighborStatus{Address: someone, State: peering.Established, UpSince: now, Accepted: map[addr.Family]uint32{addr.V4: 2}}
	judge := func(n peering.NeighborStatus) string {
		bar, admit, due := ps.judge(now, state, []peering.NeighborStatus{n})
		return strings.Repeat("bar ", len(bar)) + strings.Repeat("admit ", len(admit)) + map[bool]string{true: "wait", false: ""}[!due.IsZero()]
	}
	want(t, "too much", judge(n), "bar wait")
	n.State = peering.Idle
	want(t, "while it is away", judge(n), "wait")
	state.Peers[0].Families[0].MaxPrefixes = 5
	want(t, "with another limit", judge(n), "admit ")
	n.State, n.Accepted, n.UpSince = peering.Established, nil, now
	now = now.Add(lastPenalty)
	want(t, "when it has behaved", judge(n), "")
	if len(ps) != 0 {
		t.Errorf("it is not forgiven: %v", ps)
	}
	n.OverLimit, n.State = true, peering.Idle
	want(t, "without any room", judge(n), "bar wait")
	_, _, _ = ps.judge(now, state, nil)
	if len(ps) != 0 {
		t.Errorf("one that is gone is remembered: %v", ps)
	}
}

func TestANeighborThatIsHeldDownMeanwhileIsNotAdmitted(t *testing.T) {
	inWorld(t, limited, nil, func(w *world) {
		w.server.change(announcing(2000, 2000))
		settle()
		if got := w.barred(); !strings.HasPrefix(got, "bar 192.0.2.1") {
			t.Fatalf("at first: %q", got)
		}
		w.edit(strings.Replace(limited, "peerAsn: 65001", "peerAsn: 65001, adminDown: true", 1))
		w.server.change(func(*fakeServer) {}) // the neighbors are read again
		pass(2 * lastPenalty)
		want(t, "what is done about a neighbor that is to be down", w.barred(), "")
	})
}

func TestAWarningComesOnceBeforeTheLimit(t *testing.T) {
	inWorld(t, strings.Replace(limited, "1000}", "1000, shutdownThresholdPct: 80}", 1), nil, func(w *world) {
		w.server.change(announcing(800, 800))
		settle()
		want(t, "warnings at 80 percent", fmt.Sprint(strings.Count(w.logged(), "prefixLimitNear")), "0")
		w.server.change(announcing(801, 801))
		pass(time.Hour)
		want(t, "warnings above", fmt.Sprint(strings.Count(w.logged(), "prefixLimitNear")), "1")
		want(t, "what is done", w.barred(), "")
	})
}

func TestADoublingPauseHasAnEnd(t *testing.T) {
	if p := (penalty{times: 1 << 20}).pause(); p != lastPenalty {
		t.Errorf("the pause is %s", p)
	}
}
