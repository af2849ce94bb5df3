package bfd

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"
)

// FuzzReceive passes packets to a session that is Up. The session must not crash. Only a
// packet that RFC 5880 and 5881 accept may change anything.
func FuzzReceive(f *testing.F) {
	for _, packet := range []string{
		valid,
		"20e00318 00000002 00000000 000493e0 00030d40 0000c350",
		"20600318 00000002 00000000 000493e0 00030d40 0000c350",
		"27200318 00000002 00000001 00000000 00000000 00000000",
		"20d00018 00000002 00000001 ffffffff ffffffff 0000c350",
		"20e4ff1c 00000002 00000001 000493e0 00030d40 0000c350 01040161",
	} {
		f.Add(unhex(f, packet), uint8(255))
		f.Add(unhex(f, packet), uint8(254))
	}
	peer, local := netip.MustParseAddr(right), netip.MustParseAddr(left)
	f.Fuzz(func(t *testing.T, packet []byte, ttl uint8) {
		e := &Engine{
			log: slog.New(slog.DiscardHandler), network: newEther().node(left),
			events: make(chan Event, 2), notes: make(chan note, 9),
			sessions: map[netip.Addr]*session{}, numbers: map[uint32]*session{},
		}
		s := &session{machine: machineIn(t, Up, fast, fast), key: peer, asked: to(right, 300*ms, 3)}
		e.sessions[peer], e.numbers[1] = s, s
		before := *s.machine
		before.chance = nil
		e.hear(noon.Add(time.Second/10), arrival{from: peer, to: local, link: "eth0", hops: int(ttl), packet: packet})

		ok := ttl == 255 && legal(packet)
		after := *s.machine
		after.chance = nil
		if touched := s.taken > 0; touched != ok {
			t.Errorf("the packet is accepted: %v, want %v", touched, ok)
		}
		if !ok && (!same(before, after) || len(e.events) > 0 || s.said > 0) {
			t.Errorf("a packet for another session changed %+v to %+v", before, after)
		}
		if ok && packet[1]>>6 < 2 != (s.state == Down) {
			t.Errorf("the state is %v, which no packet allows", s.state)
		}
	})
}

// legal is a second implementation of the list in RFC 5880, section 6.8.6, for a session
// with the discriminator 1.
func legal(b []byte) bool {
	if len(b) < 24 {
		return false
	}
	version, state, flags, multiplier, length := b[0]>>5, b[1]>>6, b[1]&0x3f, b[2], int(b[3])
	mine, yours := [4]byte(b[4:8]), [4]byte(b[8:12])
	return version == 1 && length >= 24 && length <= len(b) && multiplier > 0 &&
		flags&1 == 0 && flags&4 == 0 && flags&0x30 != 0x30 &&
		mine != [4]byte{} &&
		(yours == [4]byte{3: 1} || yours == [4]byte{} && state < 2)
}

func same(a, b machine) bool {
	return a.state == b.state && a.remoteState == b.remoteState && a.remote == b.remote && a.diagnostic == b.diagnostic &&
		a.remoteTimers == b.remoteTimers && a.used == b.used && a.told == b.told && a.heard.Equal(b.heard) && a.sent.Equal(b.sent)
}
