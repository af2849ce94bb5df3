package announce

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var anAddress = rapid.Custom(func(t *rapid.T) netip.Addr {
	size := rapid.SampledFrom([]int{4, 16}).Draw(t, "size")
	a, _ := netip.AddrFromSlice(rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, "bytes"))
	return a.Unmap()
})

func TestWhatIsSaidIsUnderstood(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]MessageKind{Take, Taken}).Draw(t, "kind")
		want := rapid.SliceOfN(anAddress, 0, 3).Draw(t, "addresses")
		want = append(want, want...)
		var got []netip.Addr
		for _, text := range Encode(kind, want) {
			m, err := Decode(text)
			if err != nil || m.Kind != kind {
				t.Fatalf("%v, %v", m, err)
			}
			got = append(got, m.Addresses...)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

func TestManyAddressesAreSeveralMessages(t *testing.T) {
	many := make([]netip.Addr, 2*MaxAddresses+1)
	for i := range many {
		many[i] = netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})
	}
	var sizes []int
	for _, text := range Encode(Take, many) {
		m, err := Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(m.Addresses))
	}
	if diff := cmp.Diff([]int{MaxAddresses, MaxAddresses, 1}, sizes); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestNonsenseIsRefusedWhole(t *testing.T) {
	good := Encode(Take, []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")})[0]
	huge := []byte{messageVersion, byte(Take)}
	for range MaxAddresses + 1 {
		huge = append(huge, 4, 192, 0, 2, 1)
	}
	for name, text := range map[string][]byte{
		"nothing":            nil,
		"a version only":     {messageVersion},
		"another version":    append([]byte{messageVersion + 1}, good[1:]...),
		"an unknown kind":    {messageVersion, byte(HaveNot) + 1},
		"no kind":            {messageVersion, 0},
		"half a number":      {messageVersion, byte(Ask), 0, 0, 0, 0, 0, 0, 7},
		"half an address":    good[:len(good)-1],
		"an address of none": append(bytes.Clone(good), 0),
		"a size only":        append(bytes.Clone(good), 4),
		"an odd size":        append(bytes.Clone(good), 5, 1, 2, 3, 4, 5),
		"IPv4 as IPv6":       append(append(bytes.Clone(good), 16), netip.MustParseAddr("::ffff:192.0.2.1").AsSlice()...),
		"too many":           huge,
	} {
		if m, err := Decode(text); err == nil {
			t.Errorf("%s: %v", name, m)
		}
	}
}

// goldenMessages are messages whose exact bytes are in testdata. The bytes must not change
// once a release uses them: agents of neighboring releases talk to each other.
var goldenMessages = map[string]Message{
	"take":     {Kind: Take, Addresses: addrs("192.0.2.9", "2001:db8::9")},
	"taken":    {Kind: Taken, Addresses: addrs("192.0.2.9", "2001:db8::9")},
	"ask":      {Kind: Ask, Number: 0x0102030405060708, Addresses: addrs("192.0.2.9", "2001:db8::9")},
	"have":     {Kind: Have, Number: 0x0102030405060708, Addresses: addrs("192.0.2.9")},
	"have-not": {Kind: HaveNot, Number: 0x0102030405060708, Addresses: addrs("2001:db8::9")},
}

func TestMessagesAreWrittenAsTheirGoldenBytes(t *testing.T) {
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
		if got := hex.EncodeToString(m.Encode()); got != golden[name] {
			t.Errorf("%s is\n\t%s\nwant\n\t%s", name, got, golden[name])
		}
		delete(golden, name)
		if again, err := Decode(m.Encode()); err != nil || fmt.Sprint(again) != fmt.Sprint(m) {
			t.Errorf("%s is read as %v, %v", name, again, err)
		}
	}
	for name := range golden {
		t.Errorf("nothing writes %s", name)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{messageVersion, byte(Taken)})
	f.Add(goldenMessages["ask"].Encode())
	f.Add(Encode(Take, []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")})[0])
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := Decode(text)
		if err != nil || len(m.Addresses) == 0 {
			return
		}
		if again := m.Encode(); !bytes.Equal(again, text) {
			t.Errorf("%x became %x", text, again)
		}
	})
}
