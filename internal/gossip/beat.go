package gossip

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
)

// word is what one process says of another, or of itself: that it lives or that
// it is not heard. To say that one lives oneself is a beat.
//
// Words are signed and not encrypted: who lives is no secret, and they are so many
// that in a large cluster AES-GCM with random nonces would use a key up, by NIST SP
// 800-38D, within days. They are signed for the one who gets them, so that nobody can
// send them to another one, or to the next process of that one.
type word struct {
	silent      bool
	from, about mark
	// number grows with every word that a process says, so that none counts
	// twice.
	number uint64
}

// mark is an identity in eight bytes.
type mark uint64

func (i identity) mark() mark {
	sum := sha256.Sum256([]byte(i.String()))
	return mark(binary.BigEndian.Uint64(sum[:]))
}

// A word is sent as its format, whether it is of silence, in version 2 the first two
// bytes of the mark of its receiver, then who says it, its number, whom it is about, and
// the first 16 bytes of the HMAC-SHA256 of all that and of the receiver's mark.
//
// The receiver is named in clear so that what is meant for the process before, at the
// same address, is not taken for a packet with a foreign key.
const (
	wordFormat1 = 2
	wordFormat2 = 3
	wordTag     = 16
	wordSize1   = 1 + 1 + 8 + 8 + 8 + wordTag
	wordSize2   = 2 + wordSize1
)

// wordContext is what the keys of words are derived for.
const wordContext = "purelb gossip word"

var (
	errWord         = errors.New("not signed with one of our keys")
	errOtherProcess = errors.New("meant for another process")
)

// sign returns w as it is sent to one that understands version.
func (r *ring) sign(w word, to mark, version byte) []byte {
	buf := make([]byte, 0, wordSize2)
	buf = append(buf, wordFormat1, 0)
	if version > 1 {
		buf[0] = wordFormat2
		buf = binary.BigEndian.AppendUint16(buf, to.hint())
	}
	if w.silent {
		buf[1] = 1
	}
	buf = binary.BigEndian.AppendUint64(buf, uint64(w.from))
	buf = binary.BigEndian.AppendUint64(buf, w.number)
	buf = binary.BigEndian.AppendUint64(buf, uint64(w.about))
	return append(buf, (*r.keys.Load())[0].tag(buf, to)...)
}

// verify returns the word of a packet that was sent to us, and counts why there is
// none.
func (r *ring) verify(packet []byte, us mark) (word, error) {
	fields := 2 // where the fields begin that all versions have
	switch {
	case len(packet) == wordSize1 && packet[0] == wordFormat1 && packet[1] <= 1:
	case len(packet) == wordSize2 && packet[0] == wordFormat2 && packet[1] <= 1:
		if binary.BigEndian.Uint16(packet[fields:]) != us.hint() {
			r.counts.otherProcess.Add(1)
			return word{}, errOtherProcess
		}
		fields += 2
	default:
		r.counts.badFormat.Add(1)
		return word{}, errWord
	}
	body, tag := packet[:len(packet)-wordTag], packet[len(packet)-wordTag:]
	for _, key := range *r.keys.Load() {
		if hmac.Equal(key.tag(body, us), tag) {
			return word{
				silent: body[1] == 1,
				from:   mark(binary.BigEndian.Uint64(body[fields:])),
				number: binary.BigEndian.Uint64(body[fields+8:]),
				about:  mark(binary.BigEndian.Uint64(body[fields+16:])),
			}, nil
		}
	}
	r.counts.badKey.Add(1)
	return word{}, errWord
}

// hint is the first two bytes of m.
func (m mark) hint() uint16 { return uint16(m >> 48) }

func (k key) tag(body []byte, to mark) []byte {
	h := hmac.New(sha256.New, k.words)
	_, _ = h.Write(body) // a hash never fails
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(to)))
	return h.Sum(nil)[:wordTag]
}
