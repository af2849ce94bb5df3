package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// A stream is a sequence of records: the version in one byte and the length in
// three, then that many sealed bytes. Of a sender without a key no more than one record
// is read.
const (
	recordHeader = 4
	recordMax    = 64 << 10 // plain
)

// The two directions of a stream, so that no record can be sent back.
const (
	fromCaller   = 'c'
	fromListener = 'l'
)

// stream seals what is written to a connection and opens what is read. Like the
// library it is used by one goroutine at a time.
type stream struct {
	net.Conn
	keys     *keyring
	in, out  place
	rest     []byte // opened and not read yet
	bad      error  // why nothing more is read or written
	released sync.Once
	release  func()
}

// place is what a record is sealed for: its direction and which one it is.
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
		s.keys.strangers.noteAddress(s.peer(), "stream", header[0])
		return nil, fmt.Errorf("%w: stream of version %d", errSeal, header[0])
	}
	if header[0] != sealVersion || n > recordMax+sealSize {
		s.keys.counts.badFormat.Add(1)
		return nil, fmt.Errorf("%w: record of %d bytes", errSeal, n)
	}
	sealed := make([]byte, n)
	if _, err := io.ReadFull(s.Conn, sealed); err != nil {
		return nil, fmt.Errorf("record cut off: %w", err)
	}
	s.keys.counts.bytesIn.Add(uint64(recordHeader + n))
	return s.keys.open(sealed, s.in.take())
}

// peer is the address of the other end, without the port, which changes each time.
func (s *stream) peer() string {
	host, _, err := net.SplitHostPort(s.RemoteAddr().String())
	if err != nil {
		return s.RemoteAddr().String()
	}
	return host
}

// Write writes nothing to a peer that has shown that it has no key.
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
		s.keys.counts.bytesOut.Add(uint64(len(buf)))
		done += n
	}
	return len(p), nil
}

func (s *stream) Close() error {
	s.released.Do(s.release)
	return s.Conn.Close()
}
