package bfd

import "time"

// machine is one session as RFC 5880 has it in section 6.8. Time and packets go
// in, packets to be sent come out, and due says when it wants to be asked again.
// It reads no clock and touches nothing.
type machine struct {
	discriminator uint32 // bfd.LocalDiscr
	wanted        timers
	// chance is for the jitter, from 0 to below 1.
	chance func() float64

	state, remoteState           State      // bfd.SessionState, bfd.RemoteSessionState
	diagnostic, remoteDiagnostic Diagnostic // bfd.LocalDiag
	remote                       uint32     // bfd.RemoteDiscr; 0: not known

	// What the other end last said of its timers.
	remoteTimers timers
	remoteDemand bool

	// told are the timers in the packets that are sent, and used those that
	// count. They differ while the other end may not know of a change yet.
	told timers
	used intervals
	poll poll

	sent  time.Time // the last packet that was not an answer to a poll
	share float64   // of the interval, after which the next one is sent
	heard time.Time // the last packet from the other end
}

// newMachine returns a session that is down, and wants to say so at once.
func newMachine(now time.Time, discriminator uint32, wanted timers, chance func() float64) *machine {
	m := &machine{
		discriminator: discriminator, wanted: wanted, chance: chance,
		state: Down, remoteState: Down,
		sent:         now, // with a share of 0: the first one is due now
		remoteTimers: timers{intervals: intervals{receive: time.Microsecond}},
	}
	m.told = m.tellable()
	m.used = m.told.intervals
	return m
}

// receive takes a packet of the other end, which has passed decode and is for
// this session, and returns those to be sent at once.
func (m *machine) receive(now time.Time, c control) []control {
	m.heard = now
	m.remote, m.remoteState, m.remoteDiagnostic = c.mine, c.state, c.diagnostic
	m.remoteDemand = c.demand
	m.remoteTimers = timers{intervals{c.desiredMinTx, c.minRx}, c.multiplier}
	if c.final {
		m.finish()
	}
	if m.state == AdminDown {
		return m.insist(now)
	}
	var out []control
	if state, why := m.state.after(c.state), m.diagnostic; state != m.state {
		if state == Down {
			why = neighborDown
		}
		out = append(out, m.become(now, state, why))
	}
	if c.poll {
		out = append(out, m.packet(true))
	}
	return out
}

// after is the state that follows s when the other end says that it is in
// remote (RFC 5880, section 6.2).
func (s State) after(remote State) State {
	switch {
	case remote == AdminDown:
		return Down
	case s == Down && remote == Down:
		return Init
	case s == Down && remote == Init, s == Init && remote >= Init:
		return Up
	case s == Up && remote == Down:
		return Down
	}
	return s
}

// tick does what is due, and returns the packets to be sent.
func (m *machine) tick(now time.Time) []control {
	if at := m.expiry(); !at.IsZero() && !now.Before(at) {
		m.forget()
		if m.state == Init || m.state == Up {
			return []control{m.become(now, Down, timeExpired)}
		}
	}
	if at, ok := m.transmission(); ok && !now.Before(at) {
		return []control{m.transmit(now)}
	}
	return nil
}

// due is when tick has something to do; zero: never, unless a packet comes.
func (m *machine) due() time.Time {
	expiry := m.expiry()
	at, ok := m.transmission()
	if !ok || !expiry.IsZero() && expiry.Before(at) {
		return expiry
	}
	return at
}

// forget makes the other end one that was never heard. Its last word about its
// own state stays.
func (m *machine) forget() {
	m.remote, m.heard = 0, time.Time{}
	// One that has asked for silence may come back as somebody who waits.
	m.remoteTimers.receive, m.remoteDemand = time.Microsecond, false
}

// become changes the state, and returns the packet that says so.
func (m *machine) become(now time.Time, state State, why Diagnostic) control {
	m.state, m.diagnostic = state, why
	m.retime()
	return m.transmit(now)
}

// configure changes the timers that this end wants.
func (m *machine) configure(wanted timers) {
	m.wanted = wanted
	m.retime()
}

// disable ends the session by will of the operator, and returns the packet that
// says so. It is said again, by tick, for as long as the machine is kept.
func (m *machine) disable(now time.Time) control {
	return m.become(now, AdminDown, administratively)
}

// insist answers one who still takes this session for one that lives.
//
// The interval of a session that is not up is a second, and the other end must
// not take this end's silence for a failure before that is over.
func (m *machine) insist(now time.Time) []control {
	if m.known() {
		return nil
	}
	return []control{m.transmit(now)}
}

// known is whether the other end need not be told that this one is down: it
// has never been heard, is silent, or is down itself.
func (m *machine) known() bool {
	return m.remote == 0 || m.remoteState == Down || m.remoteState == AdminDown
}

// transmit returns the next packet that is not an answer to a poll.
func (m *machine) transmit(now time.Time) control {
	m.sent, m.share = now, m.jitter()
	c := m.packet(false)
	m.poll.asked = m.poll.asked || c.poll
	return c
}

// packet is what this end has to say.
func (m *machine) packet(final bool) control {
	return control{
		state: m.state, diagnostic: m.diagnostic,
		poll: m.poll.on && !final, final: final,
		multiplier: m.told.multiplier,
		mine:       m.discriminator, yours: m.remote,
		desiredMinTx: m.told.transmit, minRx: m.told.receive,
	}
}
