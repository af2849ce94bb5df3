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

// watched is a Service with a local address of each family. The test watches it in three ways. A
// client behind a router sends a datagram to each address every 10 ms. The client keeps a TCP
// connection to each address. A station on the segment of the addresses asks every 20 ms which
// machines have them.
type watched struct {
	*world
	addresses []netip.Addr
	probes    []*probe.Probe
	lines     []*probe.Line
	station   *segment.Watch
	began     time.Time
}

// loss is the allowed loss of each address in a scene.
type loss struct {
	// probes counts datagrams without an answer.
	probes int
	// silence is the time for which no node may answer on the segment. twofold is the time for which
	// two nodes may answer.
	silence, twofold time.Duration
	// cut allows a TCP connection to end.
	cut bool
}

var (
	// nothing is the allowance of scenes in which the address stays.
	nothing = loss{}
	// convergence is the allowance of a handover: the time in which a router learns the new node. The
	// agent that hands over waits for an answer for at most a second.
	convergence = loss{probes: 5, twofold: 1200 * time.Millisecond, cut: true}
	// powerLoss is the allowance of a power loss. The other nodes first detect that the holder is gone,
	// and then that the segment is silent. The benchmark measures less than a second on an idle machine.
	powerLoss = loss{probes: 300, silence: 3 * time.Second, cut: true}
	// expiryLoss is the allowance when the addresses of the holder expire because it does not refresh
	// them. The other nodes probe every six seconds.
	expiryLoss = loss{probes: 600 + powerLoss.probes, silence: 6*time.Second + powerLoss.silence, cut: true}
	// unpluggedLoss is the allowance when a cable is unplugged and plugged in again. A holder that still
	// has the address yields as in a handover.
	unpluggedLoss = loss{probes: 300, silence: 3 * time.Second, twofold: convergence.twofold, cut: true}
	// segmentCutLoss is the allowance when a segment is cut and joined again. Two nodes may hold an
	// address after that: the separated node uses its last state until its connection to the API server
	// works again.
	segmentCutLoss = loss{probes: 300, silence: 3 * time.Second, twofold: 10 * time.Second, cut: true}
)

// lostFrames is the silence that the station sees when a busy machine loses one or two of its frames.
const lostFrames = 70 * time.Millisecond

// watchLocal makes a Service with local addresses on the first segment. Its servers are on nodes of
// the other segment, because Kubernetes sends packets to servers of a dead node while that node
// counts as ready.
func watchLocal(w *world, spec ...string) *watched {
	w.t.Helper()
	return watchService(w, service("web", "local", spec...))
}

// watchService is watchLocal for a Service "web" of another kind.
func watchService(w *world, service string) *watched {
	w.t.Helper()
	w.apply(echo("web", 2, "node-3", "node-4"), service)
	s := &watched{world: w, addresses: w.addresses("web", families())}
	w.answers(s.addresses...)
	return s
}

// begin starts the watch. It returns when all probes have had answers for a second.
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

// beginStation starts the watch of the segment.
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

// end ends the watch. It fails the test if the loss is greater than may.
func (s *watched) end(may loss) {
	s.t.Helper()
	late := patience // a busy machine may answer late
	if may.cut {
		late = 3 * time.Second // the connection may be cut, and then has no answer
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

// judge fails the test if the station saw more silence or double answers than may.
func (s *watched) judge(a netip.Addr, story segment.Story, may loss) {
	s.t.Helper()
	silence, twofold := story.Silence(), story.Twofold()
	s.t.Logf("%s: asked %d times, no answer for %d ms, two answers for %d ms",
		a, len(story.Rounds), silence.Milliseconds(), twofold.Milliseconds())
	if silence > max(may.silence, lostFrames) || twofold > may.twofold {
		s.t.Errorf("%s: no answer for %v, want at most %v; two answers for %v, want at most %v",
			a, silence, may.silence, twofold, may.twofold)
	}
	if _, ok := story.Alone(s.began); !ok || s.t.Failed() {
		s.t.Logf("%s:\n%s", a, story)
	}
}

// rest waits until only one node has answered for each address for two seconds.
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

// holder waits until one node carries each address, and returns the node of the first.
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

// stays fails the test if the first address is no longer on node.
func (s *watched) stays(node string) {
	s.t.Helper()
	if now := s.holder(); now != node {
		s.t.Errorf("the address moved from %s to %s", node, now)
	}
}

// elsewhere waits until each address is on exactly one node other than the given one.
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

// other returns the other node of the first segment.
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
