package bfd

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// noon is the time at which the tests of the machine begin.
var noon = time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC)

const ms = time.Millisecond

func timersOf(transmit, receive time.Duration, multiplier uint8) timers {
	return timers{intervals{transmit, receive}, multiplier}
}

// fast are the timers of tests that are not about timers.
var fast = timersOf(300*ms, 300*ms, 3)

// most returns the largest jitter.
func most() float64 { return 1 }

// machineIn returns a machine that has just received a packet. It reached the state only by
// packets. other are the timers of the other end.
func machineIn(t testing.TB, state State, wanted, other timers) *machine {
	t.Helper()
	m := newMachine(noon, 1, wanted, most)
	say := func(s State, final bool) {
		m.receive(noon, control{
			state: s, final: final, mine: 2, yours: 1, multiplier: other.multiplier,
			desiredMinTx: other.transmit, minRx: other.receive,
		})
	}
	m.tick(noon)
	switch state {
	case AdminDown:
		say(Down, false)
		m.disable(noon)
	case Down:
		say(AdminDown, false)
	case Init:
		say(Down, false)
	case Up:
		say(Init, false)
		say(Up, true)
	}
	if m.state != state {
		t.Fatalf("the machine is %v, want %v", m.state, state)
	}
	return m
}

func (c control) String() string {
	words := []string{c.state.String()}
	if c.diagnostic != noDiagnostic {
		words = append(words, fmt.Sprintf("(%v)", c.diagnostic))
	}
	if c.poll {
		words = append(words, "poll")
	}
	if c.final {
		words = append(words, "final")
	}
	return fmt.Sprintf("%s %d>%d", strings.Join(words, " "), c.mine, c.yours)
}

func show(list []control) string {
	var words []string
	for _, c := range list {
		words = append(words, c.String())
	}
	return strings.Join(words, ", ")
}

// The table follows the diagram of RFC 5880, section 6.2, and the text of section 6.8.6.
func TestStateTransitionsFollowRFC5880(t *testing.T) {
	for _, tt := range []struct {
		here, there State
		want        State
		says        string
	}{
		{AdminDown, AdminDown, AdminDown, ""},
		{AdminDown, Down, AdminDown, ""},
		// The disabled end repeats that it is down.
		{AdminDown, Init, AdminDown, "AdminDown (administratively down) poll 1>7"},
		{AdminDown, Up, AdminDown, "AdminDown (administratively down) poll 1>7"},
		{Down, AdminDown, Down, ""},
		{Down, Down, Init, "Init 1>7"},
		{Down, Init, Up, "Up poll 1>7"},
		{Down, Up, Down, ""},
		{Init, AdminDown, Down, "Down (neighbor signaled session down) 1>7"},
		{Init, Down, Init, ""},
		{Init, Init, Up, "Up poll 1>7"},
		{Init, Up, Up, "Up poll 1>7"},
		{Up, AdminDown, Down, "Down (neighbor signaled session down) poll 1>7"},
		{Up, Down, Down, "Down (neighbor signaled session down) poll 1>7"},
		{Up, Init, Up, ""},
		{Up, Up, Up, ""},
	} {
		t.Run(fmt.Sprintf("%v hears %v", tt.here, tt.there), func(t *testing.T) {
			m := machineIn(t, tt.here, fast, fast)
			if tt.here == AdminDown {
				// A poll of the previous state may still be in progress.
				m.poll = poll{on: true}
			}
			out := m.receive(noon, control{state: tt.there, mine: 7, yours: 1, multiplier: 3, desiredMinTx: 300 * ms, minRx: 300 * ms})
			if m.state != tt.want || show(out) != tt.says {
				t.Errorf("the state is %v and the machine sends %q, want %v and %q", m.state, show(out), tt.want, tt.says)
			}
			if m.remote != 7 || m.remoteState != tt.there {
				t.Errorf("the machine knows the other end as %d in the state %v, want 7 in %v", m.remote, m.remoteState, tt.there)
			}
		})
	}
}

func TestSilenceEndsASession(t *testing.T) {
	for _, tt := range []struct {
		state, want State
		says        string
	}{
		{AdminDown, AdminDown, ""},
		{Down, Down, ""},
		{Init, Down, "Down (control detection time expired) 1>0"},
		{Up, Down, "Down (control detection time expired) poll 1>0"},
	} {
		t.Run(tt.state.String(), func(t *testing.T) {
			m := machineIn(t, tt.state, fast, fast)
			m.sent = noon.Add(time.Minute) // no packet is due
			end := noon.Add(900 * ms)
			if out := m.tick(end.Add(-1)); m.state != tt.state || m.remote != 2 || out != nil {
				t.Errorf("just before the detection time, the state is %v, the other end is %d and the machine sends %q", m.state, m.remote, show(out))
			}
			out := m.tick(end)
			if m.state != tt.want || m.remote != 0 || show(out) != tt.says {
				t.Errorf("at the detection time, the state is %v, the other end is %d and the machine sends %q, want %v, 0 and %q", m.state, m.remote, show(out), tt.want, tt.says)
			}
		})
	}
}

func TestJitterIsAtMostAQuarterOfTheInterval(t *testing.T) {
	for _, tt := range []struct {
		multiplier     uint8
		earliest, last time.Duration
	}{
		{3, 750 * ms, 1000 * ms},
		{2, 750 * ms, 1000 * ms},
		{1, 750 * ms, 900 * ms},
	} {
		for chance, want := range map[float64]time.Duration{0: tt.earliest, 1: tt.last} {
			m := newMachine(noon, 1, timersOf(time.Second, time.Second, tt.multiplier), func() float64 { return chance })
			m.tick(noon)
			if got := m.due().Sub(noon).Round(time.Microsecond); got != want {
				t.Errorf("multiplier %d: the second packet is due after %v, want %v", tt.multiplier, got, want)
			}
		}
	}
}

func TestTheFirstPacketIsDueAtOnce(t *testing.T) {
	m := newMachine(noon, 1, fast, most)
	if !m.due().Equal(noon) {
		t.Errorf("the first packet is due at %v, want %v", m.due(), noon)
	}
	if got := show(m.tick(noon)); got != "Down 1>0" {
		t.Errorf("the first packet is %q", got)
	}
}

// RFC 5880, section 6.8.7.
func TestAPassiveEndDoesNotSendFirst(t *testing.T) {
	m := newMachine(noon, 1, fast, most)
	m.passive = true
	if out := m.tick(noon.Add(time.Hour)); len(out) > 0 || !m.due().IsZero() {
		t.Errorf("a passive machine without a packet sends %q and has a timer at %v, want none", show(out), m.due())
	}
	heard := noon.Add(time.Hour)
	say := func(s State, yours uint32) string {
		return show(m.receive(heard, control{state: s, mine: 2, yours: yours, multiplier: 3, desiredMinTx: 300 * ms, minRx: 300 * ms}))
	}
	if got := say(Down, 0); got != "Init 1>2" {
		t.Errorf("the answer to Down is %q, want Init", got)
	}
	if got := say(Init, 1); got != "Up poll 1>2" {
		t.Errorf("the answer to Init is %q, want Up", got)
	}
	if out := m.tick(m.due()); len(out) != 1 {
		t.Errorf("an Up machine sends %q, want one packet", show(out))
	}
	if out := m.tick(heard.Add(time.Minute)); len(out) > 0 || m.state != Down || m.diagnostic != timeExpired {
		t.Errorf("after the detection time, the machine sends %q in the state %v with the diagnostic %v, want silence in Down", show(out), m.state, m.diagnostic)
	}
	if out := m.disable(heard.Add(time.Minute)); len(out) > 0 {
		t.Errorf("a passive machine that is disabled sends %q, want nothing", show(out))
	}
}

// confirm makes the machine send its next packet, and the other end answer.
func confirm(t testing.TB, m *machine, other timers) {
	t.Helper()
	out := m.tick(m.due())
	if len(out) != 1 || !out[0].poll {
		t.Fatalf("the machine sends %q, want a poll", show(out))
	}
	m.receive(m.sent, control{
		state: Up, final: true, mine: 2, yours: 1, multiplier: other.multiplier,
		desiredMinTx: other.transmit, minRx: other.receive,
	})
}

func TestAnAnswerToAnEarlierPollIsIgnored(t *testing.T) {
	m := machineIn(t, Up, fast, fast)
	m.configure(timersOf(400*ms, 300*ms, 3))
	final := control{state: Up, final: true, mine: 2, yours: 1, multiplier: 3, desiredMinTx: 300 * ms, minRx: 300 * ms}
	m.receive(noon, final)
	if m.used.transmit != 300*ms {
		t.Fatal("the machine accepts an answer that came before its poll")
	}
	m.tick(m.due())
	m.configure(timersOf(500*ms, 300*ms, 3))
	m.receive(m.sent, final)
	if m.used.transmit != 300*ms || !m.poll.on {
		t.Fatalf("the answer to the first poll confirmed the second change: the machine uses %v", m.used)
	}
	confirm(t, m, fast)
	if m.used.transmit != 500*ms || m.poll.on {
		t.Errorf("the machine uses %v, want 500ms", m.used)
	}
}

func TestAShorterIntervalCountsFromTheLastPacket(t *testing.T) {
	m := machineIn(t, Up, timersOf(50*ms, 300*ms, 3), timersOf(300*ms, time.Second, 3))
	sent := m.sent
	m.receive(sent.Add(40*ms), control{state: Up, mine: 2, yours: 1, multiplier: 3, desiredMinTx: 300 * ms, minRx: 100 * ms})
	if got := m.due().Sub(sent); got != 100*ms {
		t.Errorf("the next packet is due %v after the one before, want 100ms", got)
	}
}

func TestAnEndThatWantsNoPacketsGetsNone(t *testing.T) {
	m := machineIn(t, Up, fast, timersOf(300*ms, 0, 3))
	if out := m.tick(noon.Add(899 * ms)); out != nil {
		t.Errorf("the machine sends %q, want nothing", show(out))
	}
	if out := m.receive(noon, control{state: Up, poll: true, mine: 2, yours: 1, multiplier: 3, desiredMinTx: 300 * ms}); show(out) != "Up final 1>2" {
		t.Errorf("the answer to a poll is %q", show(out))
	}
	if !m.due().Equal(noon.Add(900 * ms)) {
		t.Errorf("it is due at %v, want when the other end is gone", m.due())
	}
	m.tick(noon.Add(900 * ms))
	if every, ok := m.interval(); !ok || every != time.Second {
		t.Error("it keeps silent for one who is gone")
	}
}
