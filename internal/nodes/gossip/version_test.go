package gossip

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/nodes/detector"
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
	goldenRecords = map[string]Record{
		"record-empty": {},
		"record-full": {
			Subnets: prefixes("192.0.2.0/24", "2001:db8::/61"), Own: addrs("192.0.2.1", "2001:db8::1"), Draining: true, Truncated: true,
		},
	}
)

const goldenDigest = 0x0102030405060708

// spans are the spans that processes announce if this is their newest version.
var spans = map[byte]span{1: unstated, 2: supported}

func TestEachVersionWritesItsGoldenBytes(t *testing.T) {
	for version, span := range spans {
		want := golden(t, version)
		check := func(name string, got []byte) {
			t.Helper()
			if !bytes.Equal(got, want[name]) {
				t.Errorf("version %d: %s is\n\t%x\nwant\n\t%x", version, name, got, want[name])
			}
			delete(want, name)
		}
		for name, w := range goldenHeartbeats {
			check(name, testKeys(t, testKey).sign(w, nodeB.peerID(), version))
		}
		for name, r := range goldenRecords {
			check(name, r.encode(span, DefaultPatience))
		}
		if version > 1 {
			check("record-patient", Record{}.encode(span, MaxPatience))
			check("record-digest", Record{Truncated: true, Digest: goldenDigest}.encode(span, DefaultPatience))
		}
		a := lone(t, "node-a", nil)
		a.self = nodeA
		check("message", a.envelope(nodeB.instance, []byte("take")))
		check("packet", withNonce(t, testKeys(t, testKey).sealPacket([]byte("ping")), 1, packetContext))
		check("stream", withNonce(t, written(t, "join"), recordHeader, []byte("purelb gossip stream c\x00\x00\x00\x00\x00\x00\x00\x00")))
		delete(want, "record-digest-of-networks") // only earlier agents write it
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
	for version, span := range spans {
		golden := golden(t, version)
		for name, want := range goldenHeartbeats {
			if got, err := testKeys(t, testKey).verify(golden[name], nodeB.peerID()); err != nil || got != want {
				t.Errorf("version %d: %s reads as %+v, %v", version, name, got, err)
			}
		}
		for name, want := range goldenRecords {
			got, err := decode(golden[name])
			if err != nil || show(got.Record) != show(want) || got.versions != span || !got.beats {
				t.Errorf("version %d: %s reads as %+v, %v", version, name, got, err)
			}
		}
		if got, err := decode(golden["record-digest"]); version > 1 && (err != nil || got.Digest != goldenDigest || !got.Truncated) {
			t.Errorf("version %d: record-digest reads as %+v, %v", version, got, err)
		}
		// The digest of an earlier agent covers only a part of its Lease. It must not count as a digest of
		// the Lease.
		if got, err := decode(golden["record-digest-of-networks"]); version > 1 && (err != nil || got.Digest != 0 || !got.Truncated || got.versions != span) {
			t.Errorf("version %d: record-digest-of-networks reads as %+v, %v", version, got, err)
		}
		for name, want := range map[string]time.Duration{"record-full": DefaultPatience, "record-patient": MaxPatience} {
			if got, err := decode(golden[name]); version > 1 && (err != nil || got.patience != want) {
				t.Errorf("version %d: %s has the patience %v, %v; want %v", version, name, got.patience, err, want)
			}
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

// readAsVersion1 reads a packet by the rules of version 1, which knows no other version.
func readAsVersion1(packet []byte, to identity) error {
	switch {
	case len(packet) > 0 && packet[0] == 1:
		aead, err := testGCM()
		if err != nil {
			return err
		}
		_, err = aead.Open(nil, packet[1:1+nonceSize], packet[1+nonceSize:], []byte("purelb gossip packet"))
		return err
	case len(packet) == 42 && packet[0] == 2 && packet[1] <= 1:
		secret, err := hkdf.Key(sha256.New, testKey, nil, "purelb gossip word", sha256.Size)
		if err != nil {
			return err
		}
		name := sha256.Sum256([]byte(to.String()))
		tag := hmac.New(sha256.New, secret)
		_, _ = tag.Write(packet[:26])
		_, _ = tag.Write(name[:8])
		if !hmac.Equal(tag.Sum(nil)[:16], packet[26:]) {
			return errors.New("it is signed for another")
		}
		return nil
	}
	return fmt.Errorf("%d bytes are not of version 1: %x", len(packet), packet)
}

// recordAsVersion1 reads the beginning of a record by the rules of version 1. It returns the flags
// and the end of the lists of version 1.
func recordAsVersion1(meta []byte) (flags byte, end int, err error) {
	if len(meta) < 4 || meta[0] != 1 {
		return 0, 0, fmt.Errorf("no record of version 1: %x", meta)
	}
	end = 3
	for range meta[2] {
		end += 2 + int(meta[end+1]+7)/8
	}
	own := meta[end]
	end++
	for range own {
		end += 1 + map[byte]int{4: 4, 6: 16}[meta[end]]
	}
	return meta[1], end, nil
}

func TestThePreviousVersionReadsThisRecord(t *testing.T) {
	for name, r := range goldenRecords {
		meta := r.encode(supported, DefaultPatience)
		flags, end, err := recordAsVersion1(meta)
		if err != nil || flags&flagBeats == 0 || end != len(meta)-3 || !bytes.Equal(meta[:end], golden(t, 1)[name]) {
			t.Errorf("%s: flags %b, %d of %d bytes, %v", name, flags, end, len(meta), err)
		}
	}
}

// A truncated record must not be read as a record with less content. There is one exception: the
// part of version 1 is a whole record of a process that knows only version 1.
func TestATruncatedRecordIsAnError(t *testing.T) {
	for name, r := range map[string]Record{
		"record-empty": {}, "record-full": goldenRecords["record-full"], "record-digest": {Truncated: true, Digest: goldenDigest},
	} {
		whole := r.encode(supported, MaxPatience)
		_, end, err := recordAsVersion1(whole)
		expect.NoError(t, err)
		for n := range whole {
			got, err := decode(whole[:n])
			if old := n == end && r.Digest == 0; old != (err == nil) || old && (got.versions != unstated || got.patience != DefaultPatience) {
				t.Errorf("%d of %d bytes of %s read as %+v, %v", n, len(whole), name, got, err)
			}
		}
	}
}

func TestAgentsOfAdjacentVersionsInteroperate(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		old := map[*port]identity{}
		for i := 3; i < 6; i++ {
			a := c.start(fmt.Sprintf("node-%03d", i), i, func(o *Options) { o.versions = unstated })
			old[a.port] = a.self
		}
		listen := func(to *port, packet []byte) {
			if id, ok := old[to]; ok {
				if err := readAsVersion1(packet, id); err != nil {
					t.Errorf("a message to %s: %v", id.node, err)
				}
			}
		}
		for _, a := range c.agents {
			a.port.set(func() { a.port.tap = listen })
		}
		c.pass(10 * time.Second)
		c.expect("with all agents", "node-000 alive, node-001 alive, node-002 alive, node-003 alive, node-004 alive, node-005 alive")
		for _, way := range [][2]*agent{{c.agents[0], c.agents[3]}, {c.agents[3], c.agents[0]}} {
			if err := way[0].Send(c.t.Context(), way[1].self.node, []byte("take")); err != nil {
				t.Error(err)
			}
			c.pass(time.Second)
			expect.Equal(t, "messages that arrive at "+way[1].self.node, len(way[1].got), 1)
		}
		for _, victim := range []int{1, 3} { // node-001 has the current version, node-004 the previous one
			at := time.Now()
			dead := c.powerOff(victim)
			c.pass(time.Second)
			for _, a := range c.agents {
				if seen, ok := a.saw(dead.self.node, Dead); !ok || seen.Sub(at) > mostDetect {
					t.Errorf("%s detects the death of %s after %v, %t", a.self.node, dead.self.node, seen.Sub(at), ok)
				}
			}
			c.pass(10 * time.Second)
		}
		for _, a := range c.agents {
			if h := a.Health(); h.BadVersion+h.BadKey+h.BadFormat+h.BadRecord+h.OtherProcess > 0 {
				t.Errorf("%s refused packets: %+v", a.self.node, h)
			}
		}
		expect.Equal(t, "live nodes seen as dead", c.wronged(), 0)
	})
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
			a.port.deliver([]byte{heartbeatFormat2 + 1, 0, 0}, b.port)
		}
		c.pass(time.Second)
		if h := a.Health(); h.BadVersion < 4 || h.BadKey+h.BadFormat+h.BadRecord > 0 {
			t.Errorf("the counters are %+v", h)
		}
		c.pass(time.Second)
	})
	for _, sender := range []string{"node-002 ", netip.AddrFrom4([4]byte{10, 0, 0, 1}).String()} {
		if n := strings.Count(log.String(), "another version of gossip\" peer="+sender); n != 1 {
			t.Errorf("%s is logged %d times:\n%s", sender, n, log.String())
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
	if n := r.strangers.count.Load(); n != 1 || r.counts.badKey.Load()+r.counts.badFormat.Load() > 0 {
		t.Errorf("the stream is counted %d times", n)
	}
	if h := b.Health(); h.BadVersion != 1 || h.BadFormat > 0 {
		t.Errorf("the message is counted as %+v", h)
	}
}

// A peer that restarts repeatedly counts as one peer. Forged addresses do not use the log entries of
// nodes.
func TestNoSenderFillsTheLog(t *testing.T) {
	var log bytes.Buffer
	g := lone(t, "node-a", nil)
	g.strangers.log = slog.New(slog.NewTextHandler(&log, nil))
	later := Record{}.encode(span{supported.max + 1, supported.max + 1}, DefaultPatience)
	for i := range 3 * strangersMax {
		g.strangers.noteAddress(netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), byte(i)}).String(), "packet", 9)
		g.read(identity{"node-b", uint64(i)}, later)
	}
	g.read(identity{"node-c", 1}, later)
	for _, node := range []string{"node-b", "node-c"} {
		expect.Equal(t, "log messages about "+node, strings.Count(log.String(), "peer="+node+" "), 1)
	}
	expect.Equal(t, "logged addresses", strings.Count(log.String(), "peer=10.9."), strangersMax)
}
