package gossip

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"purelb.io/purelb/internal/nodes/detector"
)

// Heartbeats are signed but not encrypted, because it is no secret which peer is alive. AES-GCM
// with random nonces may encrypt 2^32 messages with one key (NIST SP 800-38D). A large cluster
// sends as many heartbeats in a few days. The signature covers the receiver. So a heartbeat that
// someone recorded and sends to another process, or to the next process at the same address, is refused.

// peerID returns the ID of i in the failure detector.
func (i identity) peerID() detector.PeerID {
	sum := sha256.Sum256([]byte(i.String()))
	return detector.PeerID(binary.BigEndian.Uint64(sum[:]))
}

// A heartbeat on the wire consists of the format, one byte that is set for a suspicion, the
// first two bytes of the receiver's ID, the sender, the number, the
// subject peer, and a tag. The tag is the first 16 bytes of the HMAC-SHA256 of all these
// fields and the receiver's ID.
//
// The receiver is named in clear text. So a heartbeat for the previous process at the same
// address does not look like a packet with a foreign key.
const (
	heartbeatFormat = 3
	heartbeatTag    = 16
	heartbeatSize   = 1 + 1 + 2 + 8 + 8 + 8 + heartbeatTag
)

// heartbeatContext is the context from which the keys of heartbeats are derived.
const heartbeatContext = "purelb gossip word"

var (
	errHeartbeat    = errors.New("not signed with one of our keys")
	errOtherProcess = errors.New("meant for another process")
)

// sign encodes and signs h for the peer to.
func (k *keyring) sign(h detector.Heartbeat, to detector.PeerID) []byte {
	buf := make([]byte, 0, heartbeatSize)
	buf = append(buf, heartbeatFormat, 0)
	if h.Suspect {
		buf[1] = 1
	}
	buf = binary.BigEndian.AppendUint16(buf, hint(to))
	buf = binary.BigEndian.AppendUint64(buf, uint64(h.From))
	buf = binary.BigEndian.AppendUint64(buf, h.Number)
	buf = binary.BigEndian.AppendUint64(buf, uint64(h.About))
	return append(buf, (*k.keys.Load())[0].tag(buf, to)...)
}

// verify returns the heartbeat in a packet that was sent to this process. It counts the
// reason if it refuses the packet.
func (k *keyring) verify(packet []byte, self detector.PeerID) (detector.Heartbeat, error) {
	switch {
	case len(packet) != heartbeatSize || packet[0] != heartbeatFormat || packet[1] > 1:
		k.counts.BadFormat.Add(1)
		return detector.Heartbeat{}, errHeartbeat
	case binary.BigEndian.Uint16(packet[2:]) != hint(self):
		k.counts.OtherProcess.Add(1)
		return detector.Heartbeat{}, errOtherProcess
	}
	body, tag := packet[:len(packet)-heartbeatTag], packet[len(packet)-heartbeatTag:]
	for _, key := range *k.keys.Load() {
		if hmac.Equal(key.tag(body, self), tag) {
			return detector.Heartbeat{
				Suspect: body[1] == 1,
				From:    detector.PeerID(binary.BigEndian.Uint64(body[4:])),
				Number:  binary.BigEndian.Uint64(body[12:]),
				About:   detector.PeerID(binary.BigEndian.Uint64(body[20:])),
			}, nil
		}
	}
	k.counts.BadKey.Add(1)
	return detector.Heartbeat{}, errHeartbeat
}

// hint returns the first two bytes of id.
func hint(id detector.PeerID) uint16 { return uint16(id >> 48) }

func (k key) tag(body []byte, to detector.PeerID) []byte {
	h := hmac.New(sha256.New, k.heartbeats)
	_, _ = h.Write(body) // a hash never fails
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(to)))
	return h.Sum(nil)[:heartbeatTag]
}
