package bfd

import "time"

// slow is the least interval at which a session that is not up sends (RFC 5880,
// section 6.8.3): nobody may be there.
const slow = time.Second

// intervals are how often an end sends, and how often it takes packets, at most.
type intervals struct {
	transmit, receive time.Duration
}

// timers are those of one end of a session.
type timers struct {
	intervals
	multiplier uint8
}

// poll is a Poll Sequence (RFC 5880, section 6.5): this end asks the other one
// whether it has heard of a change.
type poll struct {
	on bool
	// asked is whether a packet of the sequence has been sent, and again
	// whether something has changed since: the answer may be to what was
	// before, so there is one more sequence to follow.
	asked, again bool
}

// tellable are the timers that may be told in this state.
func (m *machine) tellable() timers {
	t := m.wanted
	if m.state != Up {
		t.transmit = max(t.transmit, slow)
	}
	return t
}

// retime tells other timers if those wanted, or the state, have changed.
//
// While the session is up, this end goes on to send as often as before, and to
// wait as long as before, until the other end has confirmed the change; sending
// more often, and waiting longer, can begin at once.
func (m *machine) retime() {
	if t := m.tellable(); t != m.told {
		m.told = t
		if m.poll.on && m.poll.asked {
			m.poll.again = true
		} else {
			m.poll.on = true
		}
	}
	m.used = m.told.orSafer(m.used, m.state == Up && m.poll.on)
}

// orSafer are the intervals i, or of each of those before it what is safe for an
// end that does not know of i.
func (i intervals) orSafer(before intervals, unconfirmed bool) intervals {
	if !unconfirmed {
		return i
	}
	return intervals{transmit: min(i.transmit, before.transmit), receive: max(i.receive, before.receive)}
}

// finish ends the Poll Sequence: the other end has answered.
func (m *machine) finish() {
	switch {
	case !m.poll.on || !m.poll.asked:
	case m.poll.again:
		m.poll = poll{on: true}
	default:
		m.poll = poll{}
		m.used = m.told.intervals
	}
}

// interval is how often packets are sent, without jitter; false: not at all.
func (m *machine) interval() (time.Duration, bool) {
	if m.remoteTimers.receive == 0 {
		return 0, false
	}
	if m.remoteDemand && m.state == Up && m.remoteState == Up && !m.poll.on {
		return 0, false
	}
	return max(m.used.transmit, m.remoteTimers.receive), true
}

// transmission is when the next packet is due. An interval that has become
// shorter counts from the packet before.
func (m *machine) transmission() (time.Time, bool) {
	every, ok := m.interval()
	if !ok {
		return time.Time{}, false
	}
	return m.sent.Add(time.Duration(float64(every) * m.share)), true
}

// jitter is the share of the interval until the next packet, so that the
// packets of many sessions do not fall into step (RFC 5880, section 6.8.7).
func (m *machine) jitter() float64 {
	const least, most, mostOfOne = 0.75, 1, 0.9
	if m.told.multiplier == 1 {
		return least + m.chance()*(mostOfOne-least)
	}
	return least + m.chance()*(most-least)
}

// detection is after what silence the other end is gone (RFC 5880, section
// 6.8.4); 0: nothing has been heard.
func (m *machine) detection() time.Duration {
	if m.heard.IsZero() {
		return 0
	}
	return time.Duration(m.remoteTimers.multiplier) * max(m.used.receive, m.remoteTimers.transmit)
}

// expiry is when the silence has lasted too long; zero: there is none.
func (m *machine) expiry() time.Time {
	if m.heard.IsZero() {
		return time.Time{}
	}
	return m.heard.Add(m.detection())
}
