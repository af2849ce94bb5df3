package bfd

import "time"

// slow is the shortest sending interval of a session that is not up (RFC 5880, section
// 6.8.3), because there may be no other end.
const slow = time.Second

// intervals are the shortest intervals at which an end sends packets and accepts packets.
type intervals struct {
	transmit, receive time.Duration
}

// timers are the timers of one end of a session.
type timers struct {
	intervals
	multiplier uint8
}

// poll is a Poll Sequence (RFC 5880, section 6.5): this end asks the other end to confirm a
// change.
type poll struct {
	on bool
	// asked means that a packet of the sequence has been sent. again means that another
	// change followed. The answer may be about the earlier change, so another sequence must
	// follow.
	asked, again bool
}

// tellable returns the timers that this end may announce in its state.
func (m *machine) tellable() timers {
	t := m.wanted
	if m.state != Up {
		t.transmit = max(t.transmit, slow)
	}
	return t
}

// retime announces new timers if the wanted timers or the state changed.
//
// While the session is up, a change that makes this end send less often or wait for a
// shorter time takes effect only after the other end has confirmed it. A change to send
// more often or to wait longer takes effect at once.
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

// orSafer returns i. While i is unconfirmed, it returns for each interval the safer one of
// the values in i and before, because the other end may not know of i.
func (i intervals) orSafer(before intervals, unconfirmed bool) intervals {
	if !unconfirmed {
		return i
	}
	return intervals{transmit: min(i.transmit, before.transmit), receive: max(i.receive, before.receive)}
}

// finish ends the Poll Sequence after the answer of the other end.
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

// interval returns the interval between sent packets, without jitter. It returns false if
// this end sends none.
func (m *machine) interval() (time.Duration, bool) {
	if m.remoteTimers.receive == 0 || m.silent() {
		return 0, false
	}
	return max(m.used.transmit, m.remoteTimers.receive), true
}

// transmission returns when the next packet is due. If the interval has become shorter, it
// counts from the previous packet.
func (m *machine) transmission() (time.Time, bool) {
	every, ok := m.interval()
	if !ok {
		return time.Time{}, false
	}
	return m.sent.Add(time.Duration(float64(every) * m.share)), true
}

// jitter returns the share of the interval until the next packet. It keeps the packets of
// many sessions from synchronizing (RFC 5880, section 6.8.7).
func (m *machine) jitter() float64 {
	const least, most, mostOfOne = 0.75, 1, 0.9
	if m.told.multiplier == 1 {
		return least + m.chance()*(mostOfOne-least)
	}
	return least + m.chance()*(most-least)
}

// detection returns the length of silence after which the other end is down (RFC 5880,
// section 6.8.4). It is 0 if nothing was heard.
func (m *machine) detection() time.Duration {
	if m.heard.IsZero() {
		return 0
	}
	return time.Duration(m.remoteTimers.multiplier) * max(m.used.receive, m.remoteTimers.transmit)
}

// expiry returns when the detection time is over. Zero means that it is not running.
func (m *machine) expiry() time.Time {
	if m.heard.IsZero() {
		return time.Time{}
	}
	return m.heard.Add(m.detection())
}
