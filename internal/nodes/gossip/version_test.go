package gossip

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/nodes/detector"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/testing/expect"
)

// golden returns the exact bytes of each format by name, with testKey. Each version of the protocol
// has a file. The file does not change after a release with that version.
func golden(t *testing.T, version byte) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("testdata/version-%d.txt", version))
	expect.NoError(t, err)
	all := map[string][]byte{}
	for line := range strings.Lines(string(text)) {
		name, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		if all[name], err = hex.DecodeString(strings.ReplaceAll(digits, " ", "")); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

var (
	nodeA, nodeB, nodeC = identity{"node-a", 1}, identity{"node-b", 2}, identity{"node-c", 3}

	goldenHeartbeats = map[string]detector.Heartbeat{
		"heartbeat": {From: nodeA.peerID(), About: nodeA.peerID(), Number: 7},
		"suspect":   {Suspect: true, From: nodeA.peerID(), About: nodeC.peerID(), Number: 8},
		"vouch":     {From: nodeA.peerID(), About: nodeC.peerID(), Number: 9},
	}
	goldenRecords = map[string]election.Record{
		"record-empty": {},
		"record-full": {
			Subnets: prefixes("192.0.2.0/24", "2001:db8::/61"), Own: addrs("192.0.2.1", "2001:db8::1"), Draining: true, Truncated: true,
		},
	}
)

const goldenDigest = 0x0102030405060708

func TestEachVersionWritesItsGoldenBytes(t *testing.T) {
	for version := supported.min; version <= supported.max; version++ {
		want, span := golden(t, version), span{supported.min, version}
		check := func(name string, got []byte) {
			t.Helper()
			if !bytes.Equal(got, want[name]) {
				t.Errorf("version %d: %s is\n\t%x\nwant\n\t%x", version, name, got, want[name])
			}
			delete(want, name)
		}
		for name, w := range goldenHeartbeats {
			check(name, testKeys(t, testKey).sign(w, nodeB.peerID()))
		}
		for name, r := range goldenRecords {
			check(name, encode(r, span, DefaultPatience))
		}
		check("record-patient", encode(election.Record{}, span, MaxPatience))
		check("record-digest", encode(election.Record{Truncated: true, Digest: goldenDigest}, span, DefaultPatience))
		a := lone(t, "node-a", nil)
		a.self = nodeA
		check("message", a.envelope(nodeB.instance, []byte("take")))
		check("packet", withNonce(t, testKeys(t, testKey).sealPacket([]byte("ping")), 1, packetContext))
		check("stream", withNonce(t, written(t, "join"), recordHeader, []byte("purelb gossip stream c\x00\x00\x00\x00\x00\x00\x00\x00")))
		for name := range want {
			t.Errorf("version %d: no test writes the format %s", version, name)
		}
	}
}

// written returns the bytes that a caller writes to a stream for text.
func written(t *testing.T, text string) []byte {
	t.Helper()
	here, there := net.Pipe()
	go func() {
		_, _ = io.WriteString(newStream(here, testKeys(t, testKey), fromListener, fromCaller, func() {}), text)
		_ = here.Close()
	}()
	got, err := io.ReadAll(there)
	expect.NoError(t, err)
	return got
}

// testGCM is AES-GCM of the standard library with testKey.
func testGCM() (cipher.AEAD, error) {
	block, err := aes.NewCipher(testKey)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// withNonce opens the part of sealed after the header. It uses only AES-GCM of the standard library.
// It returns the text, sealed again with the nonce bytes 0, 1, 2 and so on.
func withNonce(t *testing.T, sealed []byte, header int, context []byte) []byte {
	t.Helper()
	aead, err := testGCM()
	expect.NoError(t, err)
	plain, err := aead.Open(nil, sealed[header:header+nonceSize], sealed[header+nonceSize:], context)
	expect.NoError(t, err)
	nonce := []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	return aead.Seal(append(bytes.Clone(sealed[:header]), nonce...), nonce, plain, context)
}

func TestTheGoldenBytesOfEachVersionAreRead(t *testing.T) {
	for version := supported.min; version <= supported.max; version++ {
		golden, span := golden(t, version), span{supported.min, version}
		for name, want := range goldenHeartbeats {
			if got, err := testKeys(t, testKey).verify(golden[name], nodeB.peerID()); err != nil || got != want {
				t.Errorf("version %d: %s reads as %+v, %v", version, name, got, err)
			}
		}
		for name, want := range goldenRecords {
			got, err := decode(golden[name])
			if err != nil || show(got.Record) != show(want) || got.versions != span {
				t.Errorf("version %d: %s reads as %+v, %v", version, name, got, err)
			}
		}
		if got, err := decode(golden["record-digest"]); err != nil || got.Digest != goldenDigest || !got.Truncated {
			t.Errorf("version %d: record-digest reads as %+v, %v", version, got, err)
		}
		var received []string
		b := lone(t, "node-b", &received)
		b.self = nodeB
		b.receive(golden["message"])
		if fmt.Sprint(received) != "[node-a: take]" {
			t.Errorf("version %d: the message reads as %q", version, received)
		}
		if got, err := testKeys(t, testKey).openPacket(golden["packet"]); err != nil || string(got) != "ping" {
			t.Errorf("version %d: the packet reads as %q, %v", version, got, err)
		}
		got, err := talk(t, testKeys(t, testKey), testKeys(t, testKey), func(_ *stream, c net.Conn) { _, _ = c.Write(golden["stream"]) })
		if err != nil || got != "join" {
			t.Errorf("version %d: the stream reads as %q, %v", version, got, err)
		}
	}
}

// A truncated record must not be read as a record with less content.
func TestATruncatedRecordIsAnError(t *testing.T) {
	for name, r := range map[string]election.Record{
		"record-empty": {}, "record-full": goldenRecords["record-full"], "record-digest": {Truncated: true, Digest: goldenDigest},
	} {
		whole := encode(r, supported, MaxPatience)
		for n := range whole {
			if got, err := decode(whole[:n]); err == nil {
				t.Errorf("%d of %d bytes of %s read as %+v", n, len(whole), name, got)
			}
		}
	}
}

func TestALaterVersionIsLoggedOnceAndCounted(t *testing.T) {
	var log bytes.Buffer
	inCluster(t, 0, func(c *cluster) {
		a := c.start("node-000", 0, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		b := c.start("node-001", 1, nil)
		c.start("node-002", 2, func(o *Options) { o.versions = span{supported.max + 1, supported.max + 2} })
		c.start("node-003", 3, func(o *Options) { o.versions = span{supported.max, supported.max + 1} })
		c.pass(30 * time.Second)
		c.expect("with all agents", "node-000 alive, node-001 alive, node-002 alive, node-003 alive")
		if err := a.Send(c.t.Context(), "node-002", []byte("take")); err == nil {
			t.Error("a message to an agent of another version is sent")
		}
		if err := a.Send(c.t.Context(), "node-003", []byte("take")); err != nil {
			t.Error(err)
		}
		c.powerOff(2)
		c.pass(10 * time.Second)
		c.expect("after the library has detected the death", "node-000 alive, node-001 alive, node-002 dead, node-003 alive")
		for range 3 {
			a.port.deliver([]byte{heartbeatFormat + 1, 0, 0}, b.port)
		}
		c.pass(time.Second)
		if h := a.Health(); h.BadVersion.Load() < 4 || h.BadKey.Load()+h.BadFormat.Load()+h.BadRecord.Load() > 0 {
			t.Errorf("the counters are %+v", h)
		}
		c.pass(time.Second)
	})
	for _, what := range []string{"record", "packet"} {
		if n := strings.Count(log.String(), "what="+what+" "); n != 1 {
			t.Errorf("a %s is logged %d times:\n%s", what, n, log.String())
		}
	}
}

func TestALaterVersionIsNotCountedAsAForeignKey(t *testing.T) {
	r := testKeys(t, testKey)
	if _, err := talk(t, r, r, func(_ *stream, c net.Conn) { _, _ = c.Write([]byte{sealVersion + 1, 0, 0, 9}) }); err == nil {
		t.Error("a stream of a later version is accepted")
	}
	b := lone(t, "node-b", nil)
	b.receive(append([]byte{messageVersion + 1}, make([]byte, 100)...))
	if n := r.strangers.count.Load(); n != 1 || r.counts.BadKey.Load()+r.counts.BadFormat.Load() > 0 {
		t.Errorf("the stream is counted %d times", n)
	}
	if h := b.Health(); h.BadVersion.Load() != 1 || h.BadFormat.Load() > 0 {
		t.Errorf("the message is counted as %+v", h)
	}
}
