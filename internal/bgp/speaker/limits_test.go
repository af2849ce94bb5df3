package speaker

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

var someone = netip.MustParseAddr("192.0.2.1")

const limited = `{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001},
	afiSafis: [{family: ipv4-unicast, prefixLimit: {maxPrefixes: 1000}}]}]}`

// announcing adds a session with a neighbor from which so many routes were received and accepted.
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
		expect.Equal(t, "barred neighbors", w.barred(), "")
		if strings.Contains(w.logged(), "prefixLimitNear") {
			t.Error("the log has a warning although the configuration has no threshold")
		}
		w.serves(announcing(5001, 1001))
		expect.Equal(t, "barred neighbors with one more route", w.barred(), "bar 192.0.2.1")
	})
}

func TestThePauseOfANeighborAboveItsLimitDoubles(t *testing.T) {
	inWorld(t, limited, nil, func(w *world) {
		w.serves(announcing(2000, 2000))
		expect.Equal(t, "barred neighbors at first", w.barred(), "bar 192.0.2.1")
		expect.Contains(t, "events", w.reported(), "Warning PrefixLimitExceeded Node node-a has ended the session with 192.0.2.1 for 1m0s: 2000 IPv4 prefixes")
		expect.Contains(t, "last error", w.reports.last().Status.Neighbors[0].LastError, "2000 IPv4 prefixes were received, and 1000 are allowed; it is tried again at ")
		if w.reports.last().Status.Healthy {
			t.Error("the node is healthy without its neighbor")
		}
		for _, minutes := range []int{1, 2, 4, 8, 16, 30, 30} {
			pass(time.Duration(minutes)*time.Minute - 10*time.Second)
			expect.Equal(t, "barred neighbors during the pause", w.barred(), "")
			pass(8 * time.Second) // the pause ends about two seconds later
			pass(2*time.Second + 2*collectPause)
			if got := w.barred(); !strings.HasPrefix(got, "admit 192.0.2.1, bar 192.0.2.1") {
				t.Errorf("after %d minutes the speaker does %q, want admit and bar", minutes, got)
			}
		}
	})
}

func TestThePauseIsShortAgainAfterANeighborKeptItsLimit(t *testing.T) {
	now := time.Unix(1000, 0)
	ps := penalties{}
	state := peering.State{Peers: []peering.Peer{{
		Address: someone, Options: peering.Options{Families: []peering.Family{{Family: addr.V4, MaxPrefixes: 1}}},
	}}}
	n := peering.NeighborStatus{Address: someone, State: peering.Established, UpSince: now, Accepted: map[addr.Family]uint32{addr.V4: 2}}
	judge := func(n peering.NeighborStatus) string {
		bar, admit, due := ps.judge(now, state, []peering.NeighborStatus{n}, 0)
		return strings.Repeat("bar ", len(bar)) + strings.Repeat("admit ", len(admit)) + map[bool]string{true: "wait", false: ""}[!due.IsZero()]
	}
	expect.Equal(t, "the judgment of a neighbor above its limit", judge(n), "bar wait")
	n.State = peering.Idle
	expect.Equal(t, "the judgment of an absent neighbor", judge(n), "wait")
	state.Peers[0].Families[0].MaxPrefixes = 5
	expect.Equal(t, "the judgment with a higher limit", judge(n), "admit ")
	n.State, n.Accepted, n.UpSince = peering.Established, nil, now
	now = now.Add(lastPenalty)
	expect.Equal(t, "the judgment of a neighbor that kept its limit", judge(n), "")
	if len(ps) != 0 {
		t.Errorf("the penalty is not removed: %v", ps)
	}
	n.OverLimit, n.State = true, peering.Idle
	expect.Equal(t, "the judgment of a neighbor over the limit of all", judge(n), "bar wait")
	if _, _, _ = ps.judge(now, state, nil, 0); len(ps) != 1 {
		t.Error("a neighbor that is absent for a moment has lost its penalty")
	}
	state.Peers = nil
	if _, _, _ = ps.judge(now, state, nil, 0); len(ps) != 0 {
		t.Errorf("a neighbor without a configuration has a penalty: %v", ps)
	}
}

func TestAPauseSurvivesTheSessionAndTheServer(t *testing.T) {
	inWorld(t, limited, nil, func(w *world) {
		w.serves(announcing(2000, 2000))
		expect.Equal(t, "barred neighbors at first", w.barred(), "bar 192.0.2.1")
		for _, change := range []string{"peerAsn: 65001}", "peerAsn: 65002}"} {
			w.edit(strings.Replace(limited, "peerAsn: 65001}", change, 1))
		}
		w.edit(strings.Replace(limited, "asn: 65000", "asn: 65009", 1))
		w.edit("{global: {asn: 65009, routerID: nonsense}, neighbors: []}") // not in effect
		for _, p := range w.server.peers() {
			if !p.AdminDown {
				t.Errorf("%s may connect", p.Name())
			}
		}
		pass(firstPenalty)
		expect.Equal(t, "barred neighbors after the pause", w.barred(), "admit 192.0.2.1, bar 192.0.2.1")
	})
}

func TestAllNeighborsTogetherHaveALimit(t *testing.T) {
	const two = `{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001}}, {config: {neighborAddress: 192.0.2.2, peerAsn: 65001}}]}`
	inWorld(t, two, func(w *world) { w.speaker.Room = 100_000 }, func(w *world) {
		w.serves(func(s *fakeServer) {
			established("192.0.2.2", 65001)(s)
			n := s.neighbors["192.0.2.2"]
			n.Received = map[addr.Family]uint32{addr.V4: 20_000, addr.V6: 20_000}
			s.neighbors["192.0.2.2"] = n
			announcing(60_000, 0)(s)
		})
		expect.Equal(t, "barred neighbors at the limit", w.barred(), "")
		w.serves(announcing(60_001, 0))
		expect.Equal(t, "barred neighbors above the limit", w.barred(), "bar 192.0.2.1")
		const why = "all neighbors together announce 100001 prefixes, and the memory limit of this container has room for 100000; this neighbor announces most, 60001"
		expect.Contains(t, "events", w.reported(), "Warning PrefixLimitExceeded Node node-a has ended the session with 192.0.2.1 for 1m0s: "+why)
		if s := w.reports.last().Status; s.Healthy || !strings.Contains(s.Conditions[0].Message, why) {
			t.Errorf("the condition is %+v", s.Conditions[0])
		}
	})
}

// The routes of the node and the routes of its neighbors share the memory.
func TestRoutesOfTheNodeLowerTheLimitOfNeighbors(t *testing.T) {
	for _, tt := range []struct {
		limit uint64
		own   int
		want  uint64
	}{
		{100_000, 0, 100_000}, {100_000, 20_000, 80_000}, {100_000, 200_000, leastRoom}, {5, 2, 5}, {0, 20_000, 0},
	} {
		s := New(Options{Room: tt.limit})
		for i := range tt.own {
			s.addMember(peering.Imported{Address: netip.PrefixFrom(netip.AddrFrom4([4]byte{198, byte(18 + i>>16), byte(i >> 8), byte(i)}), 32), Interface: "kube-lb0"})
		}
		if got := s.room(); got != tt.want {
			t.Errorf("with the limit %d and %d own routes, neighbors may announce %d, want %d", tt.limit, tt.own, got, tt.want)
		}
	}
}

func TestThePrefixLimitFollowsTheMemoryLimit(t *testing.T) {
	for _, tt := range []struct {
		memory int64
		want   uint64
	}{
		{math.MaxInt64, 0},
		{256 << 20 / 100 * 90, 170_393},
		{1 << 20, leastRoom},
	} {
		if got := roomFor(tt.memory); got != tt.want {
			t.Errorf("with %d bytes the limit is %d prefixes, want %d", tt.memory, got, tt.want)
		}
	}
}

func TestANeighborThatIsHeldDownIsNotAdmitted(t *testing.T) {
	inWorld(t, limited, nil, func(w *world) {
		w.serves(announcing(2000, 2000))
		if got := w.barred(); !strings.HasPrefix(got, "bar 192.0.2.1") {
			t.Fatalf("at first: %q", got)
		}
		w.edit(strings.Replace(limited, "peerAsn: 65001", "peerAsn: 65001, adminDown: true", 1))
		w.server.change(func(*fakeServer) {}) // the neighbors are read again
		pass(2 * lastPenalty)
		expect.Equal(t, "barred neighbors when the neighbor is held down", w.barred(), "")
	})
}

func TestAWarningComesOnceBeforeTheLimit(t *testing.T) {
	// 0 means no limit.
	inWorld(t, strings.Replace(limited, "1000}", "0, shutdownThresholdPct: 80}", 1), nil, func(w *world) {
		w.serves(announcing(2000, 2000))
		expect.Equal(t, "warnings without a limit", fmt.Sprint(strings.Count(w.logged(), "prefixLimitNear")), "0")
	})
	inWorld(t, strings.Replace(limited, "1000}", "1000, shutdownThresholdPct: 80}", 1), nil, func(w *world) {
		w.serves(announcing(800, 800))
		expect.Equal(t, "warnings at 80 percent", fmt.Sprint(strings.Count(w.logged(), "prefixLimitNear")), "0")
		w.server.change(announcing(801, 801))
		pass(time.Hour)
		expect.Equal(t, "warnings above 80 percent", fmt.Sprint(strings.Count(w.logged(), "prefixLimitNear")), "1")
		expect.Equal(t, "what is done", w.barred(), "")
	})
}

func TestTheDoubledPauseHasALimit(t *testing.T) {
	if p := (penalty{times: 1 << 20}).pause(); p != lastPenalty {
		t.Errorf("the pause is %s, want at most the limit", p)
	}
}
