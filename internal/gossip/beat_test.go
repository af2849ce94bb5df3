package gossip

import (
	"bytes"
	"log/slog"
	"testing"
)

const us mark = 7

func TestAWordIsReadAsItIsWritten(t *testing.T) {
	var counts counters
	r := newRing(&counts, newStrangers(slog.New(slog.DiscardHandler)))
	if err := r.set([][]byte{testKey, otherKey}); err != nil {
		t.Fatal(err)
	}
	other := newRing(&counters{}, newStrangers(slog.New(slog.DiscardHandler)))
	if err := other.set([][]byte{otherKey}); err != nil {
		t.Fatal(err)
	}
	stranger := newRing(&counters{}, newStrangers(slog.New(slog.DiscardHandler)))
	if err := stranger.set([][]byte{bytes.Repeat([]byte{9}, 16)}); err != nil {
		t.Fatal(err)
	}
	for _, w := range []word{
		{from: 1, about: 1, number: 1},
		{silent: true, from: identity{"a", 1}.mark(), about: identity{"b", 2}.mark(), number: 1 << 63},
	} {
		for version := supported.min; version <= supported.max; version++ {
			for _, by := range []*ring{r, other} {
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

func TestAWordIsNoPacketOfTheLibrary(t *testing.T) {
	r := newRing(&counters{}, newStrangers(slog.New(slog.DiscardHandler)))
	if err := r.set([][]byte{testKey}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.openPacket(r.sign(word{from: 1, about: 1, number: 1}, us, 2)); err == nil {
		t.Error("a word is taken for a packet")
	}
	if _, err := r.verify(r.sealPacket([]byte{0}), us); err == nil {
		t.Error("a packet is taken for a word")
	}
}

func BenchmarkVerify(b *testing.B) {
	r := newRing(&counters{}, newStrangers(slog.New(slog.DiscardHandler)))
	if err := r.set([][]byte{testKey}); err != nil {
		b.Fatal(err)
	}
	packet := r.sign(word{from: 1, about: 1, number: 1}, us, 2)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.verify(packet, us); err != nil {
			b.Fatal(err)
		}
	}
}
