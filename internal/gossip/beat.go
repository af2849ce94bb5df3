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
// 800-38D, within days.
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

// A word is sent as its version, whether it is of silence, who says it, its number,
// whom it is about, and the first 16 bytes of their HMAC-SHA256.
const (
	wordVersion = 2 // the first byte of a sealed packet is sealVersion
	wordBody    = 1 + 1 + 8 + 8 + 8
	wordTag     = 16
	wordSize    = wordBody + wordTag
)

// wordContext is what the keys of words are derived for.
const wordContext = "purelb gossip word"

var errWord = errors.New("not signed with one of our keys")

// sign returns w as it is sent.
func (r *ring) sign(w word) []byte {
	buf := make([]byte, 0, wordSize)
	buf = append(buf, wordVersion, 0)
	if w.silent {
		buf[1] = 1
	}
	buf = binary.BigEndian.AppendUint64(buf, uint64(w.from))
	buf = binary.BigEndian.AppendUint64(buf, w.number)
	buf = binary.BigEndian.AppendUint64(buf, uint64(w.about))
	return append(buf, (*r.keys.Load())[0].tag(buf)...)
}

// verify returns the word of a packet, and counts why there is none.
func (r *ring) verify(packet []byte) (word, error) {
	if len(packet) != wordSize || packet[0] != wordVersion || packet[1] > 1 {
		r.counts.badFormat.Add(1)
		return word{}, errWord
	}
	body, tag := packet[:wordBody], packet[wordBody:]
	for _, key := range *r.keys.Load() {
		if hmac.Equal(key.tag(body), tag) {
			return word{
				silent: body[1] == 1,
				from:   mark(binary.BigEndian.Uint64(body[2:])),
				number: binary.BigEndian.Uint64(body[10:]),
				about:  mark(binary.BigEndian.Uint64(body[18:])),
			}, nil
		}
	}
	r.counts.badKey.Add(1)
	return word{}, errWord
}

func (k key) tag(body []byte) []byte {
	h := hmac.New(sha256.New, k.words)
	_, _ = h.Write(body) // a hash never fails
	return h.Sum(nil)[:wordTag]
}
