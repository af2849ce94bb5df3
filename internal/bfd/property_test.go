package bfd

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// crossing is a packet on its way between the machines.
type crossing struct {
	at     time.Time
	to     int
	packet control
}

// duel is two machines, the wire between them, and the time.
type duel struct {
	now      time.Time
	machines [2]*machine
	wire     []crossing
	// lost and delay decide what the wire does to a packet.
	lost  func(from int) bool
	delay func() time.Duration
	next  uint32
	// failed counts the sessions that ended by silence.
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

func TestTwoMachinesComeUpWheneverTheWireHeals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.Float64Range(0, 1)
		chance := func() float64 { return share.Draw(t, "chance") }
		d := newDuel([2]timers{drawTimers(t), drawTimers(t)}, chance)
		// A bad period: packets are lost, delayed and reordered, one end restarts, and one
		// end changes its timers.
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

		// The wire works again. Packets that were on it arrive within two seconds.
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
				t.Fatalf("%d is %v, and knows %d as %v", i, m.state, m.remote, m.remoteState)
			case d.failed > 0:
				t.Fatalf("on a good wire it went down")
			case m.poll.on || m.used != m.wanted.intervals:
				t.Fatalf("%d has not agreed on %v, but uses %v", i, m.wanted, m.used)
			case every != want || other.detection() != time.Duration(m.wanted.multiplier)*want:
				t.Fatalf("%d sends every %v, want %v, and the other waits %v", i, every, want, other.detection())
			}
		}

		// The operator of one end disables it. The other end learns that, and it is no
		// failure.
		d.send(0, a.disable(d.now))
		d.run(d.now.Add(5 * time.Second))
		if a.state != AdminDown || b.state != Down || b.remoteState != AdminDown || !a.known() || d.failed > 0 {
			t.Fatalf("one is %v, the other %v and takes it for %v", a.state, b.state, b.remoteState)
		}
	})
}

// Whatever packets arrive, a machine is never Up unless it hears the other end, and it
// sends nothing that it does not know.
func TestAMachineIsConsistentForAnyPackets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := noon
		m := newMachine(now, 1, drawTimers(t), func() float64 { return 0 })
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "pause")))
			var out []control
			if rapid.Bool().Draw(t, "packet") {
				out = m.receive(now, control{
					state: State(rapid.Uint8Range(0, 3).Draw(t, "state")),
					final: rapid.Bool().Draw(t, "final"), demand: rapid.Bool().Draw(t, "demand"),
					multiplier: rapid.Uint8Min(1).Draw(t, "multiplier"), mine: rapid.Uint32Min(1).Draw(t, "mine"), yours: 1,
					desiredMinTx: microseconds(rapid.Uint32().Draw(t, "tx")), minRx: microseconds(rapid.Uint32().Draw(t, "rx")),
				})
			} else {
				out = m.tick(now)
			}
			if (m.state == Up || m.state == Init) && m.remote == 0 {
				t.Fatalf("it is %v and hears nobody", m.state)
			}
			for _, c := range out {
				if c.poll && c.final || c.state != m.state || c.yours != m.remote || m.state != Up && c.desiredMinTx < slow {
					t.Fatalf("in %v it says %v, and that it sends every %v", m.state, c, c.desiredMinTx)
				}
			}
		}
	})
}
