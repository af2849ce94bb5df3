package gossip

import (
	"bytes"
	"errors"
	"testing"

	"purelb.io/purelb/internal/nodes/detector"
)

const us detector.PeerID = 7

func TestHeartbeatEncoding(t *testing.T) {
	r, other, stranger := testKeys(t, testKey, otherKey), testKeys(t, otherKey), testKeys(t, bytes.Repeat([]byte{9}, 16))
	for _, w := range []detector.Heartbeat{
		{From: 1, About: 1, Number: 1},
		{Suspect: true, From: identity{"a", 1}.peerID(), About: identity{"b", 2}.peerID(), Number: 1 << 63},
	} {
		for _, by := range []*keyring{r, other} {
			if got, err := r.verify(by.sign(w, us), us); err != nil || got != w {
				t.Errorf("the heartbeat %+v is decoded as %+v, %v", w, got, err)
			}
		}
		if got, err := r.verify(stranger.sign(w, us), us); err == nil {
			t.Errorf("a heartbeat without our key is accepted: %+v", got)
		}
		others := r.counts.OtherProcess.Load()
		_, err := r.verify(r.sign(w, nodeC.peerID()), us)
		if n := r.counts.OtherProcess.Load() - others; n != 1 || !errors.Is(err, errOtherProcess) {
			t.Errorf("a heartbeat for an earlier process of this node is counted %d times, with the error %v", n, err)
		}
		whole := r.sign(w, us)
		for i := range whole {
			spoilt := bytes.Clone(whole)
			spoilt[i] ^= 0x10
			if got, err := r.verify(spoilt, us); err == nil {
				t.Errorf("a heartbeat with a changed byte %d is accepted: %+v", i, got)
			}
			if got, err := r.verify(whole[:i], us); err == nil {
				t.Errorf("the first %d bytes of a heartbeat are accepted: %+v", i, got)
			}
		}
		if got, err := r.verify(append(whole, 0), us); err == nil {
			t.Errorf("a heartbeat with an extra byte is accepted: %+v", got)
		}
	}
	if r.counts.BadKey.Load() == 0 || r.counts.BadFormat.Load() == 0 {
		t.Error("the refused heartbeats are not counted")
	}
}

func TestHeartbeatsDifferFromLibraryPackets(t *testing.T) {
	r := testKeys(t, testKey)
	if _, err := r.openPacket(r.sign(detector.Heartbeat{From: 1, About: 1, Number: 1}, us)); err == nil {
		t.Error("a heartbeat is read as a packet of the library")
	}
	if _, err := r.verify(r.sealPacket([]byte{0}), us); err == nil {
		t.Error("a packet of the library is read as a heartbeat")
	}
}
