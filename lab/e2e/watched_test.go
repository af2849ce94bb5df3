package e2e

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/probe"
	"purelb.io/purelb/lab/segment"
)

// watched is a Service with local addresses, one of each family, that is watched
// in three ways: a client behind a router sends a datagram to each every 10 ms,
// and keeps a TCP connection to each; and a station on their segment asks every
// 20 ms who has them.
type watched struct {
	*world
	addresses []netip.Addr
	probes    []*probe.Probe
	lines     []*probe.Line
	station   *segment.Watch
	began     time.Time
}

// loss is what a scene may cost each address.
type loss struct {
	// probes are datagrams without an answer.
	probes int
	// silence is for how long nobody may answer on the segment, and twofold for
	// how long two may.
	silence, twofold time.Duration
	// cut says that a TCP connection may end.
	cut bool
}

var (
	// nothing is what all that leaves the address where it is may cost.
	nothing = loss{}
	// convergence is what a handover may cost: the time in which a router
	// learns where the address is now. The one that hands over waits for an
	// answer for a second at most.
	convergence = loss{probes: 5, twofold: 1200 * time.Millisecond, cut: true}
	// powerLoss is what may be lost until others know that the holder is gone
	// and the segment is silent: a second, by the benchmark, on a machine that
	// has nothing else to do.
	powerLoss = loss{probes: 300, silence: 3 * time.Second, cut: true}
	// cutOffLoss is what may be lost when the holder gives up because it is cut
	// off: the others do not hear it, and ask the segment now and then.
	cutOffLoss = loss{probes: 400, silence: 4 * time.Second, cut: true}
	// expiryLoss is what may be lost when the addresses of the holder end because it
	// does not refresh them. The others ask every six seconds whether they did.
	expiryLoss = loss{probes: 600 + powerLoss.probes, silence: 6*time.Second + powerLoss.silence, cut: true}
	// unpluggedLoss is that of a cable pulled and put in again: whoever has the
	// address still gives it up as in a handover.
	unpluggedLoss = loss{probes: 300, silence: 3 * time.Second, twofold: convergence.twofold, cut: true}
	// segmentCutLoss is that of a segment that falls apart, and of its being
	// whole again, with two that have an address: the one that was away goes by
	// what it knew until its connection to the API server is alive again.
	segmentCutLoss = loss{probes: 300, silence: 3 * time.Second, twofold: 10 * time.Second, cut: true}
)

// lostFrames are for how long nobody is heard when a frame or two of the station
// get lost on a busy machine.
const lostFrames = 70 * time.Millisecond

// watchLocal makes a Service on the nodes of the first segment, with its servers
// on the others: Kubernetes goes on sending to servers of a dead node for as
// long as it takes it for ready.
func watchLocal(w *world, spec ...string) *watched {
	w.t.Helper()
	return watchService(w, service("web", "local", spec...))
}

// watchService is watchLocal for a Service "web" of another kind.
func watchService(w *world, service string) *watched {
	w.t.Helper()
	w.apply(echo("web", 2, "node-3", "node-4"), service)
	s := &watched{world: w, addresses: w.addresses("web", 2)}
	w.answers(s.addresses...)
	return s
}

// begin begins to watch. It returns when all has been well for a second.
func (s *watched) begin() {
	s.t.Helper()
	s.beginStation()
	s.probes, s.lines = nil, nil
	for _, a := range s.addresses {
		s.probes = append(s.probes, s.probe(a))
	}
	s.connect()
	s.until(patience, "the connections are in use", func() bool {
		return !slices.ContainsFunc(s.lines, func(l *probe.Line) bool { return l.Returned() < 3 })
	})
	s.began = time.Now()
}

// beginStation begins to watch the segment.
func (s *watched) beginStation() {
	s.t.Helper()
	s.endStation()
	station, err := segment.Start(s.ctx, lab.Cluster, s.addresses...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.station, s.began = station, time.Now()
	s.t.Cleanup(s.endStation)
	s.rest(patience)
}

func (s *watched) endStation() {
	s.t.Helper()
	if s.station == nil {
		return
	}
	if err := s.station.Stop(); err != nil {
		s.t.Error(err)
	}
	s.station = nil
}

// connect opens a TCP connection to each address.
func (s *watched) connect() {
	s.t.Helper()
	for _, a := range s.addresses {
		line, err := probe.Dial(s.ctx, lab.Netns("client"), netip.AddrPortFrom(a, 81), 50*time.Millisecond)
		if err != nil {
			s.t.Fatalf("open a connection to %s: %v", a, err)
		}
		s.lines = append(s.lines, line)
	}
}

// end ends the watch, and complains about what was lost beyond may.
func (s *watched) end(may loss) {
	s.t.Helper()
	late := patience // what a busy machine has yet to answer
	if may.cut {
		late = 3 * time.Second // a connection that was cut is silent
	}
	for i, a := range s.addresses {
		result, talk, story := s.probes[i].Stop(), s.lines[i].Stop(late), s.station.Story(a, s.began)
		s.t.Logf("%s: %s", a, result)
		if result.Lost() > may.probes || result.Sent < 100 {
			s.t.Errorf("%s: %s; want at most %d lost", a, result, may.probes)
		}
		s.t.Logf("%s: connection: %s", a, talk)
		if !may.cut && (talk.Broken != nil || talk.Returned < talk.Said) {
			s.t.Errorf("%s: the connection did not last: %s", a, talk)
		}
		s.judge(a, story, may)
	}
	s.endStation()
}

// judge complains about what the station saw beyond may.
func (s *watched) judge(a netip.Addr, story segment.Story, may loss) {
	s.t.Helper()
	silence, twofold := story.Silence(), story.Twofold()
	s.t.Logf("%s: asked %d times, unanswered for %d ms, answered twofold for %d ms",
		a, len(story.Rounds), silence.Milliseconds(), twofold.Milliseconds())
	if silence > max(may.silence, lostFrames) || twofold > may.twofold {
		s.t.Errorf("%s: unanswered for %v, want %v at most; answered by two for %v, want %v at most",
			a, silence, may.silence, twofold, may.twofold)
	}
	if _, ok := story.Alone(s.began); !ok || s.t.Failed() {
		s.t.Logf("%s:\n%s", a, story)
	}
}

// rest waits until one node alone has answered for each address, the same one for
// two seconds.
func (s *watched) rest(limit time.Duration) {
	s.t.Helper()
	const quiet = 2 * time.Second
	began := time.Now()
	s.until(limit, "one node alone answers for each address", func() bool {
		since := time.Now().Add(-quiet)
		if since.Before(began) {
			return false
		}
		for _, a := range s.addresses {
			if _, ok := s.station.Story(a, since).Alone(since); !ok {
				return false
			}
		}
		return true
	})
}

// holder waits until one node carries each address, and returns that of the
// first.
func (s *watched) holder() (node string) {
	s.t.Helper()
	for _, a := range slices.Backward(s.addresses) {
		s.until(patience, "one node carries "+a.String(), func() bool {
			found := s.holders(a)
			if len(found) != 1 {
				return false
			}
			node = found[0].node
			return true
		})
	}
	return node
}

// stays complains if the first address is not on node any more.
func (s *watched) stays(node string) {
	s.t.Helper()
	if now := s.holder(); now != node {
		s.t.Errorf("the address moved from %s to %s", node, now)
	}
}

// elsewhere waits until one node that is not node carries each address.
func (s *watched) elsewhere(node string) {
	s.t.Helper()
	for _, a := range s.addresses {
		s.until(patience, a.String()+" is on another node than "+node, func() bool {
			holders := slices.DeleteFunc(s.holders(a), func(h holder) bool { return !lab.Running(h.node) })
			return len(holders) == 1 && holders[0].node != node
		})
	}
}

func kubectl(w *world, args ...string) {
	w.t.Helper()
	if out, err := lab.Exec(w.ctx, cluster.ControlPlane, append([]string{"kubectl"}, args...)...); err != nil {
		w.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// other is the other node of the first segment.
func other(t testing.TB, node string) string {
	t.Helper()
	switch node {
	case "node-1":
		return "node-2"
	case "node-2":
		return "node-1"
	}
	t.Fatalf("%s is not on the first segment", node)
	return ""
}
