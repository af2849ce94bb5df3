package gossip

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/hashicorp/memberlist"

	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/testing/expect"
)

func prefixes(list ...string) (all []netip.Prefix) {
	for _, p := range list {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}

func addrs(list ...string) (all []netip.Addr) {
	for _, a := range list {
		all = append(all, netip.MustParseAddr(a))
	}
	return all
}

// show returns the contents of r, and its length on the wire.
func show(r election.Record) string {
	return fmt.Sprintf("subnets %v, own %v, draining %t, truncated %t", r.Subnets, r.Own, r.Draining, r.Truncated)
}

func TestRecordEncoding(t *testing.T) {
	for _, tt := range []struct {
		name string
		r    election.Record
		want string
	}{
		{"an empty record", election.Record{}, "subnets [], own [], draining false, truncated false"},
		{"both families, sorted", election.Record{
			Subnets: prefixes("2001:db8::/64", "192.0.2.0/24"), Own: addrs("2001:db8::1", "192.0.2.1"), Draining: true,
		}, "subnets [192.0.2.0/24 2001:db8::/64], own [192.0.2.1 2001:db8::1], draining true, truncated false"},
		{"unusual prefix lengths", election.Record{Subnets: prefixes("0.0.0.0/0", "198.18.0.0/15", "192.0.2.1/32", "2001:db8::1/128", "fe80::/10")},
			"subnets [0.0.0.0/0 192.0.2.1/32 198.18.0.0/15 2001:db8::1/128 fe80::/10], own [], draining false, truncated false"},
		{"host bits and duplicates are dropped", election.Record{Subnets: prefixes("192.0.2.7/24", "192.0.2.9/24"), Own: addrs("::ffff:192.0.2.1", "192.0.2.1", "fe80::1%eth0")},
			"subnets [192.0.2.0/24], own [192.0.2.1 fe80::1], draining false, truncated false"},
		{"invalid entries are left out", election.Record{Subnets: []netip.Prefix{{}}, Own: []netip.Addr{{}}},
			"subnets [], own [], draining false, truncated false"},
		{"a truncated record stays truncated", election.Record{Truncated: true}, "subnets [], own [], draining false, truncated true"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := decode(encode(tt.r, supported, DefaultPatience))
			if err != nil || r.leaving {
				t.Fatal(r, err)
			}
			expect.Equal(t, "the result", show(r.Record), tt.want)
		})
	}
}

func TestARecordThatDoesNotFitIsTruncated(t *testing.T) {
	var big election.Record
	for i := range 300 {
		big.Subnets = append(big.Subnets, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24))
		big.Own = append(big.Own, netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}))
	}
	for _, r := range []election.Record{big, {Own: big.Own}, {Subnets: big.Subnets[:101], Own: big.Own[:1]}} {
		buf := encode(r, supported, DefaultPatience)
		got, err := decode(buf)
		expect.NoError(t, err)
		if len(buf) > memberlist.MetaMaxSize || len(buf) < memberlist.MetaMaxSize-20 {
			t.Errorf("the record has %d bytes, want at most %d and not much less", len(buf), memberlist.MetaMaxSize)
		}
		if !got.Truncated {
			t.Errorf("the record has %d of %d subnets and %d of %d addresses, or is not marked as truncated", len(got.Subnets), len(r.Subnets), len(got.Own), len(r.Own))
		}
	}
}

// Only the Lease of a node has its MACs. The digest tells the other nodes that the Lease changed.
func TestRecordsHaveTheDigestOfTheLease(t *testing.T) {
	r := election.Record{Own: addrs("192.0.2.1"), Digest: 7}
	for i := range 120 {
		r.Subnets = append(r.Subnets, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i), 0}), 24))
		buf := encode(r, supported, DefaultPatience)
		got, err := decode(buf)
		if err != nil || len(buf) > memberlist.MetaMaxSize || got.Digest != 7 {
			t.Fatalf("%d networks: %d bytes, truncated %t, digest %d, %v", i+1, len(buf), got.Truncated, got.Digest, err)
		}
	}
}

// Readers ask the Lease for subnets only if the record has none of the node's own
// addresses.
func TestARecordWithoutAllSubnetsHasNoAddresses(t *testing.T) {
	r := election.Record{Own: addrs("192.0.2.1")}
	for i := range 34 {
		b := byte(i)
		r.Subnets = append(r.Subnets, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, b, 0}), 24),
			netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, b}), 64))
	}
	got, err := decode(encode(r, supported, DefaultPatience))
	expect.NoError(t, err)
	if len(got.Subnets) != 67 || len(got.Own) != 0 || !got.Truncated {
		t.Errorf("%d of %d subnets, own %v, truncated %t", len(got.Subnets), len(r.Subnets), got.Own, got.Truncated)
	}
}

func TestAnInvalidRecordIsRefused(t *testing.T) {
	whole := encode(election.Record{Subnets: prefixes("192.0.2.0/24"), Own: addrs("2001:db8::1")}, supported, DefaultPatience)
	if r, err := decode(append(whole, 1, 2, 3)); err != nil {
		t.Errorf("the additions of a later version are not ignored: %v, %s", err, show(r.Record))
	}
	for name, buf := range map[string][]byte{
		"unknown version": {2, 0, 0, 0}, "no version": {0, 0, 0, 0}, "no span": {1, 0, 0, 0}, "half a span": {1, 0, 0, 0, 1}, "no patience": {1, 0, 0, 0, 1, 2}, "an empty span": {1, 0, 0, 0, 2, 1, 4},
		"no family": {1, 0, 1, 5, 24, 1, 2, 3, 0, 2, 2, 4}, "too many bits": {1, 0, 1, 4, 33, 1, 2, 3, 4, 0, 2, 2, 4},
	} {
		if r, err := decode(buf); err == nil {
			t.Errorf("%s: the record is read as %s, want an error", name, show(r.Record))
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add(encode(election.Record{Subnets: prefixes("192.0.2.0/24", "2001:db8::/61"), Own: addrs("192.0.2.1", "2001:db8::1"), Draining: true}, supported, DefaultPatience))
	f.Add([]byte{1, 4, 1, 6, 129, 0})
	f.Fuzz(func(t *testing.T, buf []byte) {
		first, err := decode(buf)
		if err != nil {
			return
		}
		// A record that was decoded must keep its form when it is encoded again.
		plain, err := decode(encode(first.Record, supported, DefaultPatience))
		if err != nil {
			t.Fatalf("%v: %s", err, show(first.Record))
		}
		again, err := decode(encode(plain.Record, supported, DefaultPatience))
		expect.NoError(t, err)
		expect.Equal(t, "the result", show(again.Record), show(plain.Record))
	})
}
