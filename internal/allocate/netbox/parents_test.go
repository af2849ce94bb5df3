package netbox

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/config"
)

func TestSizesMatchNetBox(t *testing.T) {
	prefix := func(p string) block { return block{Prefix: p} }
	span := func(from, to string) block { return block{Start: from, End: to} }
	pool, populated := prefix("192.0.2.0/29"), span("192.0.2.4/24", "192.0.2.9/24")
	pool.IsPool, populated.Populated = true, true
	tests := []struct {
		block               block
		usable, size, cover string
	}{
		{prefix("192.0.2.0/29"), "192.0.2.1-192.0.2.6", "6", "192.0.2.0/29"},
		{pool, "192.0.2.0-192.0.2.7", "8", "192.0.2.0/29"},
		{prefix("192.0.2.0/31"), "192.0.2.0-192.0.2.1", "2", "192.0.2.0/31"},
		{prefix("192.0.2.9/32"), "192.0.2.9-192.0.2.9", "1", "192.0.2.8/31"},
		{prefix("2001:db8::/126"), "2001:db8::1-2001:db8::3", "3", "2001:db8::/126"},
		{prefix("2001:db8::/127"), "2001:db8::-2001:db8::1", "2", "2001:db8::/127"},
		{prefix("2001:db8::/64"), "2001:db8::1-2001:db8::ffff:ffff:ffff:ffff", "18446744073709551615", "2001:db8::/64"},
		{prefix("2001:db8::/32"), "2001:db8::1-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "18446744073709551615", "2001:db8::/32"},
		{span("192.0.2.4/24", "192.0.2.9/24"), "192.0.2.4-192.0.2.9", "6", "192.0.2.0/28"},
		{span("192.0.2.4/24", "192.0.2.4/24"), "192.0.2.4-192.0.2.4", "1", "192.0.2.4/31"},
		{populated, "192.0.2.4-192.0.2.9", "0", "192.0.2.0/28"},
	}
	for _, tt := range tests {
		kind := kindPrefix
		if tt.block.Start != "" {
			kind = kindRange
		}
		p, err := readParent(kind, tt.block)
		if err != nil {
			t.Fatal(err)
		}
		if got := [3]string{p.usable().String(), fmt.Sprint(p.size()), p.cover()}; got != [3]string{tt.usable, tt.size, tt.cover} {
			t.Errorf("%+v: got %v, want %s, %s and %s", tt.block, got, tt.usable, tt.size, tt.cover)
		}
	}
}

func TestUnreadableParentsAreRefused(t *testing.T) {
	for _, b := range []block{
		{}, {Prefix: "192.0.2.0"}, {Start: "192.0.2.9/24", End: "192.0.2.4/24"}, {Start: "192.0.2.9/24"}, {Start: "192.0.2.9/24", End: "2001:db8::1/64"},
	} {
		for _, kind := range []kind{kindPrefix, kindRange} {
			if p, err := readParent(kind, b); err == nil {
				t.Errorf("%+v is %s", b, p)
			}
		}
	}
}

// Before NetBox 4.6 only this prevents two groups of a tenant from getting the same address.
func TestOnlyOneGroupTakesReservedAddresses(t *testing.T) {
	c, err := New(Config{URL: "http://netbox.example", Token: "x"})
	if err != nil {
		t.Fatal(err)
	}
	one, other := &Pool{client: c, group: Group{NetBox: config.NetBox{Reserved: true}}}, &Pool{client: c, group: Group{NetBox: config.NetBox{Reserved: true}}}
	done, err := one.startTaking(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var e *ipam.Error
	if _, err := other.startTaking(ctx); !errors.As(err, &e) || e.Kind != ipam.KindUnavailable {
		t.Errorf("a second group may take reserved addresses at the same time: %v", err)
	}
	done()
	if _, err := other.startTaking(t.Context()); err != nil {
		t.Error(err)
	}
}
