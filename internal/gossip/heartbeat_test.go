package gossip

import (
	"bytes"
	"log/slog"
	"testing"

	"purelb.io/purelb/internal/detector"
)

const us detector.PeerID = 7

func TestAHeartbeatIsReadAsItIsWritten(t *testing.T) {
	var counts counters
	r := newKeyring(&counts, newStrangers(slog.New(slog.DiscardHandler)))
	if err := r.set([][]byte{testKey, otherKey}); err != nil {
		t.Fatal(err)
	}
	other := newKeyring(&counters{}, newStrangers(slog.New(slog.DiscardHandler)))
	if err := other.set([][]byte{otherKey}); err != nil {
		t.Fatal(err)
	}
	stranger := newKeyring(&counters{}, newStrangers(slog.New(slog.DiscardHandler)))
	if err := stranger.set([][]byte{bytes.Repeat([]byte{9}, 16)}); err != nil {
		t.Fatal(err)
	}
	for _, w := range []detector.Heartbeat{
		{From: 1, About: 1, Number: 1},
		{Suspect: true, From: identity{"a", 1}.peerID(), About: identity{"b", 2}.peerID(), Number: 1 << 63},
	} {
		for version := supported.min; version <= supported.max; version++ {
			for _, by := range []*keyring{r, other} {
				if got, err := r.verify(by.sign(w, us, version), us); err != nil || got != w {
					t.Errorf("%+v becomes %+v, %v", w, got, err)
				}
			}
			if got, err := r.verify(stranger.sign(w, us, version), us); err == nil {
				t.Errorf("who has no key says %+v", got)
			}
			if got, err := r.verify(r.sign(w, us+1, version), us); err == nil {
				t.Errorf("to another was said %+v", got)
			}
			whole := r.sign(w, us, version)
			for i := range whole {
				spoilt := bytes.Clone(whole)
				spoilt[i] ^= 0x10
				if got, err := r.verify(spoilt, us); err == nil {
					t.Errorf("with byte %d changed it says %+v", i, got)
				}
				if got, err := r.verify(whole[:i], us); err == nil {
					t.Errorf("the first %d bytes say %+v", i, got)
				}
			}
			if got, err := r.verify(append(whole, 0), us); err == nil {
				t.Errorf("with a byte more it says %+v", got)
			}
		}
	}
	if counts.badKey.Load() == 0 || counts.badFormat.Load() == 0 {
		t.Error("nothing is counted")
	}
}

func TestAHeartbeatIsNoPacketOfTheLibrary(t *testing.T) {
	r := newKeyring(&counters{}, newStrangers(slog.New(slog.DiscardHandler)))
	if err := r.set([][]byte{testKey}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.openPacket(r.sign(detector.Heartbeat{From: 1, About: 1, Number: 1}, us, 2)); err == nil {
		t.Error("a heartbeat is taken for a packet")
	}
	if _, err := r.verify(r.sealPacket([]byte{0}), us); err == nil {
		t.Error("a packet is taken for a heartbeat")
	}
}

func BenchmarkVerify(b *testing.B) {
	r := newKeyring(&counters{}, newStrangers(slog.New(slog.DiscardHandler)))
	if err := r.set([][]byte{testKey}); err != nil {
		b.Fatal(err)
	}
	packet := r.sign(detector.Heartbeat{From: 1, About: 1, Number: 1}, us, 2)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.verify(packet, us); err != nil {
			b.Fatal(err)
		}
	}
}
