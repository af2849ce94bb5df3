package detector

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/testing/expect"
)

const testInterval = 64 * time.Millisecond

// subject is a detector that counts time in ticks.
type subject struct {
	*Detector
	t        *testing.T
	now      time.Time
	numbers  map[PeerID]uint64
	actions  Actions
	replayed int
}

// newSubject returns the detector of a on a ring of peers with one-letter names.
func newSubject(t *testing.T, peers string) *subject {
	p := &subject{t: t, now: time.Unix(1000, 0), numbers: map[PeerID]uint64{}, Detector: New('a', testInterval)}
	p.peersAre(peers)
	return p
}

func (p *subject) peersAre(peers string) { p.SetRing(ringOf(peers), p.now) }

// says delivers heartbeats of a peer about others: "x" is alive, "x!" is suspected.
func (p *subject) says(from string, about ...string) {
	for _, a := range about {
		id := PeerID(from[0])
		p.numbers[id]++
		name, suspect := strings.CutSuffix(a, "!")
		p.Receive(Heartbeat{Suspect: suspect, From: id, About: PeerID(name[0]), Number: p.numbers[id]}, &p.actions)
	}
}

// ticks runs n ticks. Before each tick, the peers in heard send a heartbeat. It returns the actions
// of the last tick.
func (p *subject) ticks(n int, heard string) string {
	for range n - 1 {
		p.tick(heard)
	}
	return p.tick(heard)
}

func (p *subject) tick(heard string) string {
	for _, b := range strings.Fields(heard) {
		p.says(b, b)
	}
	p.now = p.now.Add(p.interval)
	p.Tick(p.now, &p.actions)
	var all []string
	for _, out := range p.actions.Send {
		what := "lives"
		if out.Heartbeat.Suspect {
			what = "silent"
		}
		all = append(all, fmt.Sprintf("%c: %c %s", out.To.ID, out.Heartbeat.About, what))
	}
	for _, id := range p.actions.Suspected {
		all = append(all, fmt.Sprintf("missed %c", id))
	}
	p.replayed += p.actions.Replayed
	p.actions = Actions{}
	return strings.Join(all, ", ")
}

// introduced is the number of ticks in which a new peer is not suspected.
func (p *subject) introduced() int { return int(Introduction / p.interval) }

func TestHeartbeatsGoToTheWatchers(t *testing.T) {
	p := newSubject(t, "a b c d e")
	expect.Equal(t, "five peers", p.ticks(1, ""), "b: a lives, c: a lives, d: a lives")
	p.peersAre("a b? c d e")
	expect.Equal(t, "with a dead peer", p.ticks(1, ""), "b: a lives, c: a lives, d: a lives, e: a lives")
	p.peersAre("a b c d e")
	expect.Equal(t, "b is alive again, but e may not know it", p.ticks(1, ""), "b: a lives, c: a lives, d: a lives, e: a lives")
	expect.Equal(t, "e knows that b is alive", p.ticks(p.introduced()+1, "b c d e"), "b: a lives, c: a lives, d: a lives")
}

func TestWatchersSuspectASilentPeer(t *testing.T) {
	const beats = "b: a lives, c: a lives, d: a lives"
	const alarm = "b: e silent, c: e silent, d: e silent, e: e silent"
	p := newSubject(t, "a b c d e")
	expect.Equal(t, "with heartbeats of all watched peers", p.ticks(100, "c d e"), beats)
	expect.Equal(t, "before the miss limit", p.ticks(MissLimit-1, "c d"), beats)
	for range Repeats {
		expect.Equal(t, "at the miss limit", p.ticks(1, "c d"), beats+", "+alarm+", missed e")
	}
	expect.Equal(t, "after three suspicions", p.ticks(1, "c d"), beats)
	p.peersAre("a b c d e?")
	again := int(Renewal / p.interval)
	expect.Equal(t, "before the next miss limit", p.ticks(again-1, "c d"), beats)
	expect.Equal(t, "at the next miss limit", p.ticks(1, "c d"), beats+", "+alarm+", missed e")
	const ours = ", b: a lives, c: a lives, d: a lives, e: a lives"
	expect.Equal(t, "e is alive again: all peers learn that e and a are alive", p.ticks(1, "c d e"), "b: e lives, c: e lives, d: e lives, e: e lives, "+beats+ours+ours)
	p.peersAre("a b c d e")
	expect.Equal(t, "one tick later", p.ticks(1, "c d e"), beats)
}

func TestANewPeerIsSuspectedLater(t *testing.T) {
	p := newSubject(t, "a b c")
	const beats = "b: a lives, c: a lives"
	expect.Equal(t, "no heartbeat so far", p.ticks(p.introduced()+MissLimit-1, ""), beats)
	if got := p.ticks(1, ""); !strings.Contains(got, "missed b") || !strings.Contains(got, "missed c") {
		t.Errorf("no peer is suspected: %s", got)
	}
}

func TestOthersTakeOverFromDeadWatchers(t *testing.T) {
	p := newSubject(t, "a b c d e f")
	p.ticks(100, "d e f")
	p.peersAre("a b c d? e f")
	expect.Contains(t, "when no other peer watches c", p.ticks(2*MissLimit, "e f"), "c silent")
}

// c has just joined, and its watcher d dies. A long grace for c would hide a split that comes soon
// after a restart.
func TestOthersTakeOverANewPeer(t *testing.T) {
	p := newSubject(t, "a b d e f")
	p.ticks(100, "d e f")
	p.peersAre("a b c d e f")
	p.ticks(MissLimit, "d e f")
	p.peersAre("a b c d? e f")
	expect.Contains(t, "when no other peer watches c", p.ticks(2*MissLimit, "e f"), "c silent")
}

func TestASuspectedProcessRefutes(t *testing.T) {
	p := newSubject(t, "a b c d e")
	const beats = "b: a lives, c: a lives, d: a lives"
	p.ticks(10, "c d e")
	p.says("d", "a!")
	const all = ", b: a lives, c: a lives, d: a lives, e: a lives"
	for range Repeats {
		expect.Equal(t, "two refutations to all peers", p.ticks(1, "c d e"), beats+all+all)
	}
	expect.Equal(t, "no further refutation", p.ticks(1, "c d e"), beats)
}

func TestASecondAccuserCorroborates(t *testing.T) {
	within := int(Renewal / testInterval)
	for _, tt := range []struct {
		name, peers string
		accuse      func(*subject)
		want        bool
	}{
		{"no accuser", "a b c d e", func(p *subject) { p.ticks(1, "c d e") }, false},
		{"one accuser, repeatedly", "a b c d e", func(p *subject) {
			for range 10 {
				p.ticks(within/2, "c d e")
				p.says("d", "a!")
			}
		}, false},
		{"two accusers", "a b c d e", func(p *subject) { p.says("d", "a!"); p.says("e", "a!") }, true},
		{"two accusers in different intervals", "a b c d e", func(p *subject) { p.says("d", "a!"); p.ticks(within, "c d e"); p.says("e", "a!") }, true},
		{"a second accuser much later", "a b c d e", func(p *subject) { p.says("d", "a!"); p.ticks(within+1, "c d e"); p.says("e", "a!") }, false},
		{"a second accuser of another peer", "a b c d e", func(p *subject) { p.says("d", "a!"); p.says("e", "b!") }, false},
		{"the only other peer accuses", "a b", func(p *subject) { p.says("b", "a!") }, true},
		{"the only other live peer accuses", "a b c?", func(p *subject) { p.says("b", "a!") }, true},
	} {
		p := newSubject(t, tt.peers)
		p.ticks(10, "b c d e")
		tt.accuse(p)
		expect.Equal(t, tt.name+": the suspicion is corroborated", p.actions.Corroborated, tt.want)
	}
}

func TestAHeardPeerIsRefutedForOthers(t *testing.T) {
	p := newSubject(t, "a b c d e")
	const beats = "b: a lives, c: a lives, d: a lives"
	p.ticks(10, "c d e")
	p.says("d", "e!")
	p.says("b", "e!")
	expect.Equal(t, "a watched peer is refuted to all, once", p.ticks(1, "c d e"), "b: e lives, c: e lives, d: e lives, e: e lives, "+beats)
	p.says("d", "b!")
	expect.Equal(t, "an unwatched peer", p.ticks(1, "c d e"), beats+", missed b")
	p.ticks(1, "c d")
	p.says("d", "e!")
	expect.Equal(t, "a peer that a does not hear either", p.ticks(1, "c d"), beats+", missed e")
}

// a watches d, e and f. It never hears f.
func TestAPeerThatWasNeverHeardGetsNoVouch(t *testing.T) {
	p := newSubject(t, "a b c d e f")
	for tick := range 2 * p.introduced() {
		p.says("b", "f!")
		if got := p.tick("d e"); strings.Contains(got, "f lives") {
			t.Fatalf("in tick %d, a vouches for a peer that it never heard: %s", tick, got)
		}
	}
}

// A process that stood still reads heartbeats that waited. Their senders may be dead by then.
func TestPausedProcessDoesNotVouch(t *testing.T) {
	p := newSubject(t, "a b c d e")
	const all = "b: e lives, c: e lives, d: e lives, e: e lives"
	p.ticks(10, "c d e")
	p.now = p.now.Add(p.interval)
	p.says("d", "e!")
	if got := p.tick("c d e"); strings.Contains(got, "e lives") || !strings.Contains(got, "missed e") {
		t.Errorf("after a pause of one interval, a sends %s", got)
	}
	p.says("d", "e!")
	if got := p.tick("c d"); strings.Contains(got, "e lives") || !strings.Contains(got, "missed e") {
		t.Errorf("one interval later, a sends %s", got)
	}
	p.tick("c d e")
	p.says("d", "e!")
	expect.Contains(t, "after a new heartbeat, a sends", p.tick("c d e"), all)
}

// a suspects e, and stands still when the next heartbeat of e arrives.
func TestPausedProcessRefutesLater(t *testing.T) {
	p := newSubject(t, "a b c d e")
	const all = "b: e lives, c: e lives, d: e lives, e: e lives"
	p.ticks(10, "c d e")
	p.ticks(MissLimit, "c d")
	p.now = p.now.Add(p.interval)
	lacks(t, "after a pause of one interval, a sends", p.tick("c d e"), "e lives")
	expect.Contains(t, "after a new heartbeat, a sends", p.tick("c d e"), all)
}

func TestAnUnknownPeerMaySuspectThisProcess(t *testing.T) {
	p := newSubject(t, "a b c d e")
	p.ticks(10, "c d e")
	p.says("x", "a!", "e!")
	if got := p.ticks(1, "c d e"); !strings.Contains(got, "b: a lives, c: a lives, d: a lives, e: a lives") || strings.Contains(got, "missed") {
		t.Errorf("a sends %s, want a refutation to all peers", got)
	}
}

func TestIsolatedProcessSendsNoSuspicions(t *testing.T) {
	p := newSubject(t, "a b c d e")
	const beats = "b: a lives, c: a lives, d: a lives"
	p.ticks(10, "c d e")
	p.ticks(MissLimit-1, "")
	got := p.ticks(1, "")
	lacks(t, "an isolated process sends", got, "silent")
	for _, name := range []string{"c", "d", "e"} {
		expect.Contains(t, "an isolated process", got, "missed "+name)
	}
	p.ticks(2*Repeats, "c d e")
	expect.Equal(t, "after the isolation", p.ticks(1, "c d e"), beats)
	expect.Contains(t, "when e is silent again", p.ticks(MissLimit, "c d"), "e silent")
}

func TestTheMissLimitOfAVouchedPeerDoubles(t *testing.T) {
	p := newSubject(t, "a b c d e")
	p.ticks(10, "c d e")
	alarms := 0
	for range 2000 {
		if strings.Contains(p.ticks(1, "c d"), "e silent") {
			alarms++
			p.says("d", "e")
		}
	}
	if alarms < 5 || alarms > 30 {
		t.Errorf("%d suspicions in two minutes, which is too many", alarms)
	}
	p.ticks(10, "c d e")
	expect.Contains(t, "at the normal miss limit after a heartbeat", p.ticks(MissLimit, "c d"), "e silent")
}

func TestReplayedHeartbeatIsIgnored(t *testing.T) {
	p := newSubject(t, "a b c d e")
	p.ticks(10, "c d e")
	replay := Heartbeat{From: 'e', About: 'e', Number: p.numbers['e']}
	for range MissLimit - 1 {
		p.Receive(replay, &p.actions)
		p.ticks(1, "c d")
	}
	p.Receive(replay, &p.actions)
	expect.Contains(t, "after replayed heartbeats", p.ticks(1, "c d"), "e silent")
	expect.Equal(t, "counted replays", p.replayed, MissLimit)
	p.says("x", "a!", "c!", "x")
	p.says("c", "x!")
	p.says("a", "d!") // an own heartbeat of a that was sent back
	if got := p.ticks(1, "c d"); strings.Contains(got, "missed c") || strings.Contains(got, "missed d") || strings.Contains(got, "x") {
		t.Errorf("a heartbeat of a process outside of the ring counts: %s", got)
	}
	// Packets of one interval may arrive in any order.
	p.numbers['e'] += 10
	p.Receive(Heartbeat{From: 'e', About: 'e', Number: p.numbers['e']}, &p.actions)
	p.actions = Actions{}
	p.Receive(Heartbeat{From: 'e', About: 'e', Number: p.numbers['e'] - 5}, &p.actions)
	expect.Equal(t, "heartbeats that count, of one that arrives late", len(p.actions.Heard), 1)
}

// lacks fails the test if part is in got.
func lacks(t *testing.T, what, got, part string) {
	t.Helper()
	if strings.Contains(got, part) {
		t.Errorf("%s: %q in\n%s", what, part, got)
	}
}
