package bfd

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// crossing is a packet between the machines.
type crossing struct {
	at     time.Time
	to     int
	packet control
}

// duel is two machines with a wire between them and a clock.
type duel struct {
	now      time.Time
	machines [2]*machine
	wire     []crossing
	// lost decides whether the wire loses a packet. delay is the delay of a packet.
	lost  func(from int) bool
	delay func() time.Duration
	next  uint32
	// failed counts the sessions that ended because of the detection time.
	failed int
}

func newDuel(timers [2]timers, chance func() float64) *duel {
	d := &duel{now: noon, next: 1}
	for i := range d.machines {
		d.replace(i, timers[i], chance)
	}
	return d
}

// replace replaces a machine by a new one, as a restart does.
func (d *duel) replace(i int, wanted timers, chance func() float64) {
	d.machines[i] = newMachine(d.now, d.next, wanted, chance)
	d.next++
}

// send puts packets on the wire. It encodes and decodes them on the way.
func (d *duel) send(from int, packets []control) {
	for _, c := range packets {
		b, err := c.encode()
		if err != nil {
			panic(err)
		}
		if c, err = decode(b); err != nil {
			panic(fmt.Sprintf("%v: %v", c, err))
		}
		if !d.lost(from) {
			d.wire = append(d.wire, crossing{d.now.Add(d.delay()), 1 - from, c})
		}
	}
}

// run runs the duel until the given time.
func (d *duel) run(until time.Time) {
	for {
		at, do := until.Add(1), func() {}
		for i, m := range d.machines {
			if due := m.due(); !due.IsZero() && due.Before(at) {
				at, do = due, func() {
					before := m.state
					d.send(i, m.tick(d.now))
					if before == Up && m.state == Down {
						d.failed++
					}
				}
			}
		}
		for i, c := range d.wire {
			if c.at.Before(at) {
				at, do = c.at, func() {
					d.wire = slices.Delete(d.wire, i, i+1)
					m := d.machines[c.to]
					if c.packet.yours == m.discriminator || c.packet.yours == 0 {
						d.send(c.to, m.receive(d.now, c.packet))
					}
				}
			}
		}
		if at.After(until) {
			d.now = until
			return
		}
		if at.After(d.now) {
			d.now = at
		}
		do()
	}
}

func drawTimers(t *rapid.T) timers {
	interval := rapid.SampledFrom([]time.Duration{10 * ms, 50 * ms, 100 * ms, 300 * ms, time.Second, 3 * time.Second})
	return timersOf(interval.Draw(t, "transmit"), interval.Draw(t, "receive"), rapid.Uint8Range(2, 10).Draw(t, "multiplier"))
}

func TestTwoMachinesComeUpOnAWorkingWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.Float64Range(0, 1)
		chance := func() float64 { return share.Draw(t, "chance") }
		d := newDuel([2]timers{drawTimers(t), drawTimers(t)}, chance)
		// In a bad period, packets are lost, delayed and reordered. One end restarts, and one end
		// changes its timers.
		loss := [2]float64{share.Draw(t, "loss"), share.Draw(t, "loss")}
		d.lost = func(from int) bool { return share.Draw(t, "lost") < loss[from] }
		latest := rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "latest")
		d.delay = func() time.Duration {
			return time.Duration(rapid.Int64Range(0, latest).Draw(t, "delay"))
		}
		for range rapid.IntRange(0, 6).Draw(t, "troubles") {
			i := rapid.IntRange(0, 1).Draw(t, "who")
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				d.replace(i, drawTimers(t), chance)
			case 1:
				d.machines[i].configure(drawTimers(t))
			}
			d.run(d.now.Add(time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "for"))))
		}

		// The wire works again. Delayed packets arrive within two seconds.
		d.lost = func(int) bool { return false }
		d.delay = func() time.Duration { return ms }
		a, b := d.machines[0], d.machines[1]
		d.run(d.now.Add(2*time.Second + max(a.detection(), b.detection()) + 15*time.Second))
		d.failed = 0
		d.run(d.now.Add(15 * time.Second))
		for i, m := range d.machines {
			other := d.machines[1-i]
			every, _ := m.interval()
			switch want := max(m.wanted.transmit, other.wanted.receive); {
			case m.state != Up || m.remoteState != Up || m.remote != other.discriminator:
				t.Fatalf("machine %d is %v, and knows %d as %v", i, m.state, m.remote, m.remoteState)
			case d.failed > 0:
				t.Fatalf("a session went down on a good wire")
			case m.poll.on || m.used != m.wanted.intervals:
				t.Fatalf("machine %d uses %[3]v, want %[2]v", i, m.wanted, m.used)
			case every != want || other.detection() != time.Duration(m.wanted.multiplier)*want:
				t.Fatalf("machine %d sends every %v, want %v; the other waits %v", i, every, want, other.detection())
			}
		}

		// One end is disabled. The other end learns that it is no failure.
		d.send(0, a.disable(d.now))
		d.run(d.now.Add(5 * time.Second))
		if a.state != AdminDown || b.state != Down || b.remoteState != AdminDown || !a.known() || d.failed > 0 {
			t.Fatalf("the disabled end is %v, the other is %v and knows it as %v", a.state, b.state, b.remoteState)
		}
	})
}

// With any packets, a machine is Up only if it receives packets of the other end. It sends only
// packets that agree with its state.
func TestAMachineIsConsistentForAnyPackets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := noon
		m := newMachine(now, 1, drawTimers(t), func() float64 { return 0 })
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "pause")))
			var out []control
			if rapid.Bool().Draw(t, "packet") {
				out = m.receive(now, control{
					state:      State(rapid.Uint8Range(0, 3).Draw(t, "state")),
					final:      rapid.Bool().Draw(t, "final"),
					multiplier: rapid.Uint8Min(1).Draw(t, "multiplier"), mine: rapid.Uint32Min(1).Draw(t, "mine"), yours: 1,
					desiredMinTx: microseconds(rapid.Uint32().Draw(t, "tx")), minRx: microseconds(rapid.Uint32().Draw(t, "rx")),
				})
			} else {
				out = m.tick(now)
			}
			if (m.state == Up || m.state == Init) && m.remote == 0 {
				t.Fatalf("the state is %v without packets of the other end", m.state)
			}
			for _, c := range out {
				if c.poll && c.final || c.state != m.state || c.yours != m.remote || m.state != Up && c.desiredMinTx < slow {
					t.Fatalf("in the state %v the machine sends %v with the interval %v", m.state, c, c.desiredMinTx)
				}
			}
		}
	})
}
