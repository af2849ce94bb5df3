package announce_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"purelb.io/purelb/internal/announce"
)

// messageVersion is the first byte of every message.
const messageVersion = 1

func TestManyAddressesAreSeveralMessages(t *testing.T) {
	many := make([]netip.Addr, 2*announce.MaxAddresses+1)
	for i := range many {
		many[i] = netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})
	}
	var got []netip.Addr
	for i, text := range announce.Encode(announce.Take, many) {
		m, err := announce.Decode(text)
		if want := []int{announce.MaxAddresses, announce.MaxAddresses, 1}[i]; err != nil || m.Kind != announce.Take || len(m.Addresses) != want {
			t.Fatalf("%v, %v", m, err)
		}
		got = append(got, m.Addresses...)
	}
	equal(t, got, many)
}

func TestNonsenseIsRefused(t *testing.T) {
	good := announce.Encode(announce.Take, []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")})[0]
	huge := []byte{messageVersion, byte(announce.Take)}
	for range announce.MaxAddresses + 1 {
		huge = append(huge, 4, 192, 0, 2, 1)
	}
	for name, text := range map[string][]byte{
		"nothing":            nil,
		"a version only":     {messageVersion},
		"another version":    append([]byte{messageVersion + 1}, good[1:]...),
		"an unknown kind":    {messageVersion, byte(announce.NotHeard) + 1},
		"no kind":            {messageVersion, 0},
		"half an address":    good[:len(good)-1],
		"an address of none": append(bytes.Clone(good), 0),
		"a size only":        append(bytes.Clone(good), 4),
		"an odd size":        append(bytes.Clone(good), 5, 1, 2, 3, 4, 5),
		"IPv4 as IPv6":       append(append(bytes.Clone(good), 16), netip.MustParseAddr("::ffff:192.0.2.1").AsSlice()...),
		"too many":           huge,
	} {
		if m, err := announce.Decode(text); err == nil {
			t.Errorf("%s: %v", name, m)
		}
	}
}

// goldenMessages are messages whose exact bytes are in testdata. The bytes must not change
// once a release uses them: agents of neighboring releases talk to each other.
var goldenMessages = map[string]announce.Message{
	"take":     {Kind: announce.Take, Addresses: addrs("192.0.2.9", "2001:db8::9")},
	"taken":    {Kind: announce.Taken, Addresses: addrs("192.0.2.9", "2001:db8::9")},
	"listen":   {Kind: announce.Listen, Addresses: addrs("192.0.2.9", "2001:db8::9")},
	"notheard": {Kind: announce.NotHeard, Addresses: addrs("192.0.2.9")},
}

// formerMessages are messages that only earlier versions write. They are ignored.
var formerMessages = []string{"ask", "have", "have-not"}

func TestMessagesAreGolden(t *testing.T) {
	text, err := os.ReadFile("testdata/messages.txt")
	if err != nil {
		t.Fatal(err)
	}
	golden := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		golden[name] = strings.ReplaceAll(digits, " ", "")
	}
	for name, m := range goldenMessages {
		equal(t, name+" "+hex.EncodeToString(m.Encode()), name+" "+golden[name])
		delete(golden, name)
		if again, err := announce.Decode(m.Encode()); err != nil || fmt.Sprint(again) != fmt.Sprint(m) {
			t.Errorf("%s is read as %v, %v", name, again, err)
		}
	}
	for _, name := range formerMessages {
		text, err := hex.DecodeString(golden[name])
		if m, wrong := announce.Decode(text); err != nil || len(text) == 0 || wrong == nil {
			t.Errorf("%s is read as %v, %v", name, m, err)
		}
		delete(golden, name)
	}
	for name := range golden {
		t.Errorf("nothing writes %s", name)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{messageVersion, byte(announce.Taken)})
	f.Add(announce.Encode(announce.Take, []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")})[0])
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := announce.Decode(text)
		if err != nil || len(m.Addresses) == 0 {
			return
		}
		if again := m.Encode(); !bytes.Equal(again, text) {
			t.Errorf("%x became %x", text, again)
		}
	})
}
