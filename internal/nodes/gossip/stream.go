package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// A stream is a sequence of records. A record is the version in one byte, the length in
// three bytes, and that many sealed bytes. If the sender has no key, this process reads
// only one record.
const (
	recordHeader = 4
	recordMax    = 64 << 10 // bytes of plain text
)

// The direction is part of each seal, so nobody can send a record back to its sender.
const (
	fromCaller   = 'c'
	fromListener = 'l'
)

// stream seals the data written to a connection, and opens the data read from it. Only one
// goroutine at a time may use it. The library complies.
type stream struct {
	net.Conn
	keys     *keyring
	in, out  place
	rest     []byte // opened but not read yet
	bad      error  // the error that ended reading or writing
	released sync.Once
	release  func()
}

// place is the position for which a record is sealed: its direction and its number.
type place struct {
	direction byte
	next      uint64
}

func (c *place) take() []byte {
	buf := append([]byte("purelb gossip stream "), c.direction)
	buf = binary.BigEndian.AppendUint64(buf, c.next)
	c.next++
	return buf
}

func newStream(conn net.Conn, k *keyring, in, out byte, release func()) *stream {
	return &stream{Conn: conn, keys: k, in: place{direction: in}, out: place{direction: out}, release: release}
}

func (s *stream) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.bad == nil {
			s.rest, s.bad = s.record()
		}
		if s.bad != nil {
			return 0, s.bad
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *stream) record() ([]byte, error) {
	var header [recordHeader]byte
	if _, err := io.ReadFull(s.Conn, header[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(header[:]) & (1<<24 - 1)
	if later(header[0], sealVersion) {
		s.keys.strangers.note(s.RemoteAddr().String(), "stream", header[0])
		return nil, fmt.Errorf("%w: stream of version %d", errSeal, header[0])
	}
	if header[0] != sealVersion || n > recordMax+sealSize {
		s.keys.counts.BadFormat.Add(1)
		return nil, fmt.Errorf("%w: record of %d bytes", errSeal, n)
	}
	sealed := make([]byte, n)
	if _, err := io.ReadFull(s.Conn, sealed); err != nil {
		return nil, fmt.Errorf("record cut off: %w", err)
	}
	s.keys.counts.BytesIn.Add(uint64(recordHeader + n))
	return s.keys.open(sealed, s.in.take())
}

// Write writes nothing after the peer has shown that it has no key.
func (s *stream) Write(p []byte) (int, error) {
	if s.bad != nil && !errors.Is(s.bad, io.EOF) {
		return 0, s.bad
	}
	for done := 0; done < len(p); {
		n := min(recordMax, len(p)-done)
		buf := make([]byte, recordHeader, recordHeader+n+sealSize)
		buf = s.keys.seal(buf, p[done:done+n], s.out.take())
		binary.BigEndian.PutUint32(buf, uint32(len(buf)-recordHeader))
		buf[0] = sealVersion
		if _, err := s.Conn.Write(buf); err != nil {
			return done, err
		}
		s.keys.counts.BytesOut.Add(uint64(len(buf)))
		done += n
	}
	return len(p), nil
}

func (s *stream) Close() error {
	s.released.Do(s.release)
	return s.Conn.Close()
}
