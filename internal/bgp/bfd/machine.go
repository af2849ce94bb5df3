package bfd

import "time"

// machine is one session as RFC 5880, section 6.8, defines it. Its methods take the time
// and the received packets, and return the packets to send. due returns when to call tick.
// It reads no clock and does no I/O.
type machine struct {
	discriminator uint32 // bfd.LocalDiscr
	wanted        timers
	// passive means that this end sends nothing while it does not hear the other end.
	passive bool
	// chance returns a random number for the jitter, at least 0 and below 1.
	chance func() float64

	state, remoteState           State      // bfd.SessionState, bfd.RemoteSessionState
	diagnostic, remoteDiagnostic Diagnostic // bfd.LocalDiag
	remote                       uint32     // bfd.RemoteDiscr; 0 means not known

	// The timers that the other end last reported.
	remoteTimers timers

	// told are the timers in the sent packets. used are the intervals in force. They differ
	// while the other end may not know of a change.
	told timers
	used intervals
	poll poll

	sent  time.Time // when the last packet that was not an answer to a poll was sent
	share float64   // the share of the interval after which the next packet is due
	heard time.Time // when the last packet from the other end arrived
}

// newMachine returns a session that is down. Its first packet is due at once.
func newMachine(now time.Time, discriminator uint32, wanted timers, chance func() float64) *machine {
	m := &machine{
		discriminator: discriminator, wanted: wanted, chance: chance,
		state: Down, remoteState: Down,
		sent:         now, // share is 0, so the first packet is due now
		remoteTimers: timers{intervals: intervals{receive: time.Microsecond}},
	}
	m.told = m.tellable()
	m.used = m.told.intervals
	return m
}

// receive processes a packet of the other end that passed decode and is for this session.
// It returns the packets to send at once.
func (m *machine) receive(now time.Time, c control) []control {
	m.heard = now
	m.remote, m.remoteState, m.remoteDiagnostic = c.mine, c.state, c.diagnostic
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
		out = append(out, m.become(now, state, why)...)
	}
	if c.poll {
		out = append(out, m.packet(true))
	}
	return out
}

// after returns the state that follows s when the other end reports the state remote (RFC
// 5880, section 6.2).
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

// tick does what is due, and returns the packets to send.
func (m *machine) tick(now time.Time) []control {
	if at := m.expiry(); !at.IsZero() && !now.Before(at) {
		m.forget()
		if m.state == Init || m.state == Up {
			return m.become(now, Down, timeExpired)
		}
	}
	if at, ok := m.transmission(); ok && !now.Before(at) {
		return []control{m.transmit(now)}
	}
	return nil
}

// due returns when to call tick. Zero means never, unless a packet arrives.
func (m *machine) due() time.Time {
	expiry := m.expiry()
	at, ok := m.transmission()
	if !ok || !expiry.IsZero() && expiry.Before(at) {
		return expiry
	}
	return at
}

// forget resets the machine as if it had never heard the other end. It keeps the state that
// the other end last reported.
func (m *machine) forget() {
	m.remote, m.heard = 0, time.Time{}
	// The other end may have wanted no packets. After a restart it may wait for some.
	m.remoteTimers.receive = time.Microsecond
}

// become changes the state, and returns the packet that reports it.
func (m *machine) become(now time.Time, state State, why Diagnostic) []control {
	m.state, m.diagnostic = state, why
	m.retime()
	if m.silent() {
		return nil
	}
	return []control{m.transmit(now)}
}

// silent reports whether this end must not send, because it is passive and does not hear the
// other end (RFC 5880, section 6.8.7).
func (m *machine) silent() bool { return m.passive && m.remote == 0 }

// configure changes the timers that this end wants.
func (m *machine) configure(wanted timers) {
	m.wanted = wanted
	m.retime()
}

// disable ends the session on behalf of the operator, and returns the packet that reports
// the end. tick repeats the packet while the machine exists.
func (m *machine) disable(now time.Time) []control {
	return m.become(now, AdminDown, administratively)
}

// insist answers a packet of another end that still regards this session as up.
//
// A session that is not up sends only once in a second. The detection time of the other end
// may be shorter. The other end must not report a failure because of that silence.
func (m *machine) insist(now time.Time) []control {
	if m.known() {
		return nil
	}
	return []control{m.transmit(now)}
}

// known reports whether the other end knows that this end is down, or cannot be told: this end
// never heard the other end, or the other end is silent or down.
func (m *machine) known() bool {
	return m.remote == 0 || m.remoteState == Down || m.remoteState == AdminDown
}

// transmit returns the next packet that does not answer a poll.
func (m *machine) transmit(now time.Time) control {
	m.sent, m.share = now, m.jitter()
	c := m.packet(false)
	m.poll.asked = m.poll.asked || c.poll
	return c
}

// packet returns a packet with the current state of this end.
func (m *machine) packet(final bool) control {
	return control{
		state: m.state, diagnostic: m.diagnostic,
		poll: m.poll.on && !final, final: final,
		multiplier: m.told.multiplier,
		mine:       m.discriminator, yours: m.remote,
		desiredMinTx: m.told.transmit, minRx: m.told.receive,
	}
}
