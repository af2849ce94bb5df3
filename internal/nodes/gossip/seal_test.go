package gossip

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"

	"purelb.io/purelb/internal/testing/expect"
)

var otherKey = bytes.Repeat([]byte{7}, 32)

func testKeys(t *testing.T, keys ...[]byte) *keyring {
	t.Helper()
	r := newKeyring(&Health{}, &strangers{log: slog.New(slog.DiscardHandler), count: new(atomic.Uint64)})
	expect.NoError(t, r.set(keys))
	return r
}

func TestOnlyPacketsSealedWithOurKeysAreOpened(t *testing.T) {
	plain := []byte("the quick brown fox")
	for _, tt := range []struct {
		name   string
		spoil  func(packet []byte) []byte
		want   error
		counts [2]uint64 // bad format, bad key
	}{
		{"as sent", func(p []byte) []byte { return p }, nil, [2]uint64{}},
		{"empty", func([]byte) []byte { return nil }, errSeal, [2]uint64{1}},
		{"the version alone", func(p []byte) []byte { return p[:1] }, errSeal, [2]uint64{1}},
		{"another version", func(p []byte) []byte { p[0]--; return p }, errSeal, [2]uint64{1}},
		{"cut off", func(p []byte) []byte { return p[:len(p)-1] }, errSeal, [2]uint64{0, 1}},
		{"longer", func(p []byte) []byte { return append(p, 0) }, errSeal, [2]uint64{0, 1}},
		{"one bit changed", func(p []byte) []byte { p[20] ^= 4; return p }, errSeal, [2]uint64{0, 1}},
		{"another key", func([]byte) []byte { return testKeys(t, otherKey).sealPacket(plain) }, errSeal, [2]uint64{0, 1}},
		{"sealed for a stream", func([]byte) []byte {
			c := place{direction: fromCaller}
			return testKeys(t, testKey).seal([]byte{sealVersion}, plain, c.take())
		}, errSeal, [2]uint64{0, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := testKeys(t, testKey)
			got, err := r.openPacket(tt.spoil(r.sealPacket(plain)))
			if !errors.Is(err, tt.want) || (err == nil) != bytes.Equal(got, plain) {
				t.Errorf("the packet opens as %q, %v; want %v", got, err, tt.want)
			}
			if counts := [2]uint64{r.counts.BadFormat.Load(), r.counts.BadKey.Load()}; counts != tt.counts {
				t.Errorf("the counters are %v, want %v", counts, tt.counts)
			}
		})
	}
}

// talk connects a writer and a reader by a stream. It returns the bytes that the reader got, and
// the error that ended it.
func talk(t *testing.T, in, out *keyring, write func(*stream, net.Conn)) (string, error) {
	t.Helper()
	here, there := net.Pipe()
	go func() {
		write(newStream(here, out, fromListener, fromCaller, func() {}), here)
		_ = here.Close()
	}()
	s := newStream(there, in, fromCaller, fromListener, func() {})
	got, err := io.ReadAll(s)
	_ = s.Close()
	return string(got), err
}

func TestAStreamCarriesOnlySealedRecords(t *testing.T) {
	long := string(bytes.Repeat([]byte("0123456789"), 50_000))
	say := func(words ...string) func(*stream, net.Conn) {
		return func(s *stream, _ net.Conn) {
			for _, w := range words {
				_, _ = io.WriteString(s, w) // the reader may have closed the connection
			}
		}
	}
	raw := func(bytes ...byte) func(*stream, net.Conn) {
		return func(_ *stream, c net.Conn) { _, _ = c.Write(bytes) }
	}
	for _, tt := range []struct {
		name  string
		key   []byte
		write func(*stream, net.Conn)
		want  string
		ok    bool
	}{
		{"no records", testKey, say(), "", true},
		{"several records", testKey, say("a", "b", "c"), "abc", true},
		{"a text that is longer than a record", testKey, say(long, "end"), long + "end", true},
		{"another key", otherKey, say("a"), "", false},
		{"not a record", testKey, raw([]byte("GET / HTTP/1.1\r\n\r\n")...), "", false},
		{"a huge record", testKey, raw(1, 255, 255, 255, 0, 0), "", false},
		{"a truncated record", testKey, raw(1, 0, 0, 99, 0, 0), "", false},
		{"a record too short to be sealed", testKey, raw(1, 0, 0, 2, 0, 0), "", false},
		{"records in another order", testKey, func(s *stream, _ net.Conn) {
			s.out.next = 1
			_, _ = io.WriteString(s, "second")
		}, "", false},
		{"our own records sent back", testKey, func(s *stream, _ net.Conn) {
			s.out.direction = fromListener
			_, _ = io.WriteString(s, "echo")
		}, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := talk(t, testKeys(t, testKey), testKeys(t, tt.key), tt.write)
			if got != tt.want || (err == nil) != tt.ok {
				t.Errorf("read %d bytes and %v, want %d bytes", len(got), err, len(tt.want))
			}
		})
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(testKeys(&testing.T{}, testKey).sealPacket([]byte("x")))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := testKeys(t, testKey)
		if plain, err := r.openPacket(data); err == nil && len(data) < packetOverhead {
			t.Errorf("the packet %x opens as %x", data, plain)
		}
		if got, _ := talk(t, r, r, func(_ *stream, c net.Conn) { _, _ = c.Write(data) }); len(got) > len(data) {
			t.Errorf("the stream %x is read as %q", data, got)
		}
	})
}
