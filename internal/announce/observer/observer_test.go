package observer

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
)

// The MACs of the nodes b and c, of a second card of b, and of a machine that is no node.
var (
	macB     = [6]byte{2, 0, 0, 0, 0, 0xb}
	macB2    = [6]byte{2, 0, 0, 0, 0, 0xb2}
	macC     = [6]byte{2, 0, 0, 0, 0, 0xc}
	macOther = [6]byte{2, 0, 0, 0, 0, 0xff}
	// macShared is of b or of c.
	macShared = [6]byte{2, 0, 0, 0, 0, 0xbc}
)

const watched, controlB, controlC, gateway = "192.0.2.100", "192.0.2.2", "192.0.2.3", "192.0.2.254"

// scene is a node a on a segment with b, c and a gateway, and a Service whose address b has.
type scene struct {
	View
	Watch
	here bool
	now  time.Time
	sum  Count
	// packets has the packets of all rounds, by the time of the round.
	packets map[time.Time]int
}

func ip(text string) netip.Addr { return netip.MustParseAddr(text) }

func newScene() *scene {
	s := &scene{now: time.Unix(1e9, 0), packets: map[time.Time]int{}}
	network := netip.MustParsePrefix("192.0.2.0/24")
	s.Situation = announce.Situation{
		Self: "a", Complete: true,
		Node: announce.Node{
			Links:     []announce.Link{{Name: "eth0", Up: true, Carrier: true, Neighbors: true}},
			Addresses: []announce.Address{{Prefix: netip.MustParsePrefix("192.0.2.1/24"), Link: "eth0", Preferred: announce.Forever, Valid: announce.Forever}},
			Gateways:  []netip.Addr{ip(gateway)},
		},
		Peers: election.Peers{
			Trusted:    true,
			Own:        map[netip.Addr]string{ip("192.0.2.1"): "a", ip(controlB): "b", ip(controlC): "c"},
			MACs:       map[[6]byte]string{macB: "b", macB2: "b", macC: "c"},
			SharedMACs: map[[6]byte][]string{macShared: {"b", "c"}},
		},
	}
	for _, node := range []string{"a", "b", "c"} {
		s.Situation.Peers.Members = append(s.Situation.Peers.Members, election.Member{Node: node, Subnets: []netip.Prefix{network}, Eligible: true, Reachable: true})
	}
	s.Decisions = []announce.Decision{elsewhere(watched, "b")}
	s.Here = func(announce.Decision) bool { return s.here }
	return s
}

func elsewhere(address, winner string) announce.Decision {
	return announce.Decision{Service: "default/web", IP: ip(address), Reason: announce.ReasonLostElection, Winner: winner}
}

// first is a random number that is none.
func first(int) int { return 0 }

// answer is a machine that answers for addresses.
type answers = announce.Answers

// healthy answers for all, and b has the address.
func healthy() answers {
	return answers{ip(watched): {macB}, ip(controlB): {macB}, ip(controlC): {macC}, ip(gateway): {macOther}}
}

// with are healthy answers, but these machines answer for the address.
func with(macs ...[6]byte) answers {
	all := healthy()
	all[ip(watched)] = macs
	return all
}

// round is one round with these answers. Only agents that deny the address are asked in vain.
func (s *scene) round(heard answers, denies ...string) (q Question, asked bool) {
	began := s.now
	q, c, ok := s.Next(s.now, s.View, first)
	s.sum = s.sum.Plus(c)
	if !ok {
		s.now = s.now.Add(2 * time.Second)
		return q, false
	}
	got := answers{}
	for _, a := range q.All() {
		if macs := heard[a]; len(macs) > 0 {
			got[a] = macs
		}
	}
	denied := announce.Denied{}
	nodes := s.ToAsk(s.View, q, got)
	for _, node := range nodes {
		for _, d := range denies {
			if d == node {
				denied.Add(node, []netip.Addr{q.Address})
			}
		}
	}
	s.sum = s.sum.Plus(s.Learn(s.View, q, got, denied))
	s.packets[began] = len(q.All()) + len(nodes)
	s.now = s.now.Add(s.Pause(q, len(nodes)))
	return q, true
}

func (s *scene) rounds(n int, heard answers, denies ...string) {
	for range n {
		s.round(heard, denies...)
	}
}

func (s *scene) String() string {
	return fmt.Sprintf("%v observed, %v unanswered, %v double", s.sum.Observed, s.sum.Unanswered, s.sum.Double)
}

func TestWhatAnswersProve(t *testing.T) {
	silent := with()
	deaf := answers{}
	tests := []struct {
		name string
		run  func(s *scene)
		want string
	}{
		{"the holder answers", func(s *scene) { s.rounds(5, healthy()) }, "10s observed, 0s unanswered, 0s double"},
		{"a gap while the address moves", func(s *scene) {
			s.rounds(2, healthy())
			s.rounds(1, silent)
			s.Decisions = []announce.Decision{elsewhere(watched, "c")}
			s.rounds(2, with(macC))
		}, "10s observed, 2s unanswered, 0s double"},
		{"silence that lasts", func(s *scene) { s.rounds(5, silent); s.rounds(1, healthy()) }, "12s observed, 10s unanswered, 0s double"},
		{"this node is deaf", func(s *scene) { s.rounds(2, healthy()); s.rounds(5, deaf); s.rounds(1, healthy()) }, "6s observed, 0s unanswered, 0s double"},
		{"no control is known", func(s *scene) {
			s.Situation.Peers.Own, s.Situation.Node.Gateways = map[netip.Addr]string{ip("192.0.2.1"): "a"}, nil
			s.rounds(3, healthy())
			s.rounds(3, silent)
			s.rounds(1, healthy())
		}, "8s observed, 0s unanswered, 0s double"},
		{"the Service is deleted, and this node hears of it after the silence", func(s *scene) {
			s.rounds(2, healthy())
			s.rounds(1, silent)
			s.Decisions = nil
			s.rounds(3, silent)
		}, "4s observed, 0s unanswered, 0s double"},
		{"no node has an endpoint any more", func(s *scene) {
			s.rounds(1, silent)
			s.Decisions = []announce.Decision{{IP: ip(watched), Reason: announce.ReasonIdle}}
			s.rounds(3, silent)
		}, "0s observed, 0s unanswered, 0s double"},
		{"this node takes the address after a gap", func(s *scene) {
			s.rounds(1, silent)
			s.Decisions = []announce.Decision{{IP: ip(watched), Where: announce.Local, Reason: announce.ReasonElected, Winner: "a"}}
			s.here = true
			s.rounds(3, silent)
		}, "2s observed, 2s unanswered, 0s double"},
		{"a handover, in which two answer once", func(s *scene) {
			s.rounds(1, healthy())
			s.rounds(1, with(macB, macC))
			s.rounds(1, with(macC))
		}, "6s observed, 0s unanswered, 0s double"},
		{"the address goes there and back", func(s *scene) {
			s.rounds(1, with(macB, macC))
			s.rounds(1, with(macC))
			s.rounds(1, with(macC, macB))
		}, "6s observed, 0s unanswered, 0s double"},
		{"two nodes have the address", func(s *scene) { s.rounds(1, healthy()); s.rounds(3, with(macB, macC)); s.rounds(1, healthy()) },
			"14s observed, 0s unanswered, 8s double"},
		{"a foreign machine has it too", func(s *scene) { s.rounds(3, with(macB, macOther)) }, "7s observed, 0s unanswered, 7s double"},
		{"one node with two cards", func(s *scene) { s.rounds(3, with(macB, macB2)) }, "6s observed, 0s unanswered, 0s double"},
		{"a MAC that two nodes claim", func(s *scene) { s.rounds(3, with(macB, macShared)) }, "6s observed, 0s unanswered, 0s double"},
		{"two foreign machines", func(s *scene) { s.rounds(2, with(macOther, [6]byte{9})) }, "4s observed, 0s unanswered, 4s double"},
		{"kube-proxy of c answers by IPVS", func(s *scene) {
			for range 3 {
				s.round(with(macB, macC), "c")
			}
		}, "8s observed, 0s unanswered, 0s double"},
		{"a question that could not be asked", func(s *scene) {
			s.rounds(1, silent)
			s.Forget()
			s.rounds(1, healthy())
		}, "2s observed, 0s unanswered, 0s double"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene()
			tt.run(s)
			if got := s.String(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestOnlyAddressesThatCanBeAskedForAreWatched(t *testing.T) {
	decide := func(d announce.Decision) func(*scene) {
		return func(s *scene) { s.Decisions = []announce.Decision{d} }
	}
	tests := []struct {
		name   string
		change func(s *scene)
		want   bool
	}{
		{"another node has it", func(*scene) {}, true},
		{"this node has it", func(s *scene) { s.here = true }, false},
		{"it is in a network that this node is not in", decide(elsewhere("198.51.100.7", "b")), false},
		{"all nodes have it", decide(announce.Decision{IP: ip(watched), Where: announce.Remote, Reason: announce.ReasonRemote}), false},
		{"no node may have it", decide(announce.Decision{IP: ip(watched), Reason: announce.ReasonNoEligibleNodes}), false},
		{"it is withdrawn", decide(announce.Decision{IP: ip(watched), Reason: announce.ReasonIdle}), false},
		{"the agent has not read all of the cluster", func(s *scene) { s.Situation.Complete = false }, false},
		{"the link is down", func(s *scene) { s.Situation.Node.Links[0].Carrier = false }, false},
		{"there is no Service", func(s *scene) { s.Decisions = nil }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene()
			tt.change(s)
			if _, asked := s.round(healthy()); asked != tt.want {
				t.Errorf("asked: %v, want %v", asked, tt.want)
			}
		})
	}
}

func TestTheHolderIsNoControl(t *testing.T) {
	s := newScene()
	seen := map[netip.Addr]bool{}
	for n := range 12 {
		q, _, ok := s.Next(s.now, s.View, func(below int) int { return n % below })
		if !ok {
			t.Fatal("nothing to ask")
		}
		seen[q.Control] = true
		s.now = s.now.Add(s.Pause(q, 0))
	}
	if len(seen) != 2 || !seen[ip(controlC)] || !seen[ip(gateway)] {
		t.Errorf("the controls are %v, want %s and %s in turn", seen, controlC, gateway)
	}
}

func TestAnAddressIsWatchedForFiveMinutes(t *testing.T) {
	s := newScene()
	s.Decisions = append(s.Decisions, elsewhere("192.0.2.101", "c"))
	began, turn := s.now, 0
	var last netip.Addr
	for s.now.Sub(began) < 5*watchFor {
		q, _, _ := s.Next(s.now, s.View, func(n int) int { return (turn) % n })
		if q.Address != last {
			turn++
			if last.IsValid() && s.now.Sub(began) < watchFor {
				t.Fatalf("another address after %v", s.now.Sub(began))
			}
			last = q.Address
		}
		s.now = s.now.Add(s.Pause(q, 0))
	}
	if turn < 4 {
		t.Errorf("%d addresses in %v, want one in %v", turn, 5*watchFor, watchFor)
	}
}

// The cost is a promise: one packet in a second at most, whatever the answers are.
func TestOnePacketInASecondAtMost(t *testing.T) {
	scenes := map[string][]answers{
		"healthy": {healthy()}, "silent": {with()}, "deaf": {{}}, "two answer": {with(macB, macC)},
		"all in turn": {healthy(), with(), {}, with(macB, macC), with(macB, macC), with(macB, macC, macOther)},
	}
	for name, turns := range scenes {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			began := s.now
			for i := 0; s.now.Sub(began) < time.Hour; i++ {
				s.round(turns[i%len(turns)])
			}
			sent := 0
			for _, n := range s.packets {
				sent += n
			}
			if limit := int(s.now.Sub(began).Seconds()); sent > limit {
				t.Errorf("%d packets in %d s", sent, limit)
			}
			if s.sum.Observed > s.now.Sub(began) {
				t.Errorf("%v observed in %v", s.sum.Observed, s.now.Sub(began))
			}
		})
	}
}

// On a large segment, each node asks less often.
func TestAHundredPacketsInASecondOnASegmentAtMost(t *testing.T) {
	for _, nodes := range []int{3, 100, 1000, 5000} {
		s := newScene()
		for len(s.Situation.Peers.Members) < nodes {
			s.Situation.Peers.Members = append(s.Situation.Peers.Members, election.Member{Node: fmt.Sprint("n", len(s.Situation.Peers.Members))})
		}
		q, _, _ := s.Next(s.now, s.View, first)
		if rate := float64(nodes*len(q.All())) / s.Pause(q, 0).Seconds(); rate > 101 {
			t.Errorf("%d nodes send %.0f packets in a second", nodes, rate)
		}
	}
}
