package gossip

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"
)

// This file encrypts all packets and streams of the library by AES-GCM with a random nonce.
// Nothing reaches the library unless one of our keys opens it. The library can encrypt too.
// But in the format of the library the version byte is not authenticated, and it selects
// how the plain text is unpadded. A recorded packet with a changed version byte makes the
// library panic, and an attacker needs no key for that.
//
// A packet that is replayed opens again and has no effect: the incarnations of the library and
// the numbers of heartbeats and messages show that it is old.
const (
	sealVersion = 1
	nonceSize   = 12
	sealSize    = nonceSize + 16 // the nonce and the tag
	// packetOverhead is the number of bytes that sealing adds to a packet.
	packetOverhead = 1 + sealSize
)

var (
	packetContext = []byte("purelb gossip packet")
	errSeal       = errors.New("not sealed with one of our keys")
)

// keyring holds the keys. It is safe for concurrent use.
type keyring struct {
	keys   atomic.Pointer[[]key]
	counts *Health
	// strangers counts packets and streams of a later version.
	strangers *strangers
}

// key is one key: the cipher that seals, and the secret that signs heartbeats.
type key struct {
	cipher.AEAD
	heartbeats []byte
}

func newKey(secret []byte) (key, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return key{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return key{}, err
	}
	heartbeats, err := hkdf.Key(sha256.New, secret, nil, heartbeatContext, sha256.Size)
	return key{aead, heartbeats}, err
}

func newKeyring(counts *Health, s *strangers) *keyring {
	return &keyring{counts: counts, strangers: s}
}

func (k *keyring) set(keys [][]byte) error {
	if len(keys) == 0 {
		return errors.New("gossip needs a key")
	}
	var all []key
	for i, secret := range keys {
		one, err := newKey(secret)
		if errors.As(err, new(aes.KeySizeError)) {
			return fmt.Errorf("gossip key %d has %d bytes, not 16, 24 or 32", i+1, len(secret))
		}
		if err != nil {
			return fmt.Errorf("gossip key %d: %w", i+1, err)
		}
		all = append(all, one)
	}
	k.keys.Store(&all)
	return nil
}

// seal appends plain to dst, sealed for context with the first key.
func (k *keyring) seal(dst, plain, context []byte) []byte {
	return (*k.keys.Load())[0].Seal(dst, nil, plain, context)
}

// open returns the plain text of a packet or record that was sealed for context. If it
// refuses, it counts the reason.
func (k *keyring) open(sealed, context []byte) ([]byte, error) {
	if len(sealed) < sealSize {
		k.counts.BadFormat.Add(1)
		return nil, fmt.Errorf("%w: %d bytes", errSeal, len(sealed))
	}
	for _, key := range *k.keys.Load() {
		if plain, err := key.Open(nil, nil, sealed, context); err == nil {
			return plain, nil
		}
	}
	k.counts.BadKey.Add(1)
	return nil, errSeal
}

func (k *keyring) sealPacket(plain []byte) []byte {
	buf := make([]byte, 1, len(plain)+packetOverhead)
	buf[0] = sealVersion
	return k.seal(buf, plain, packetContext)
}

func (k *keyring) openPacket(packet []byte) ([]byte, error) {
	if len(packet) == 0 || packet[0] != sealVersion {
		k.counts.BadFormat.Add(1)
		return nil, errSeal
	}
	return k.open(packet[1:], packetContext)
}
