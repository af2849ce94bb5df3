package netbox

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"

	"purelb.io/purelb/internal/addr"
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

// carrier counts requests, and carries none of them.
type carrier struct{ sent atomic.Int32 }

func (c *carrier) RoundTrip(*http.Request) (*http.Response, error) {
	c.sent.Add(1)
	return nil, io.ErrUnexpectedEOF
}

// Before NetBox 4.6 only this prevents two groups of a tenant from getting the same address.
func TestOnlyOneGroupTakesReservedAddresses(t *testing.T) {
	var wire carrier
	c, err := New(Config{URL: "http://netbox.example", Token: "x", Transport: &wire})
	if err != nil {
		t.Fatal(err)
	}
	p, answered := &Pool{client: c, group: Group{NetBox: config.NetBox{Reserved: true}}}, make(chan []ipam.Answer, 1)
	c.taking.Lock() // as another group does
	go func() { answered <- p.Claim(t.Context(), []ipam.Claim{{Key: "c/default/web/lb/v4", Family: addr.V4}}) }()
	for range 1000 {
		runtime.Gosched()
	}
	if n := wire.sent.Load(); n > 0 {
		t.Errorf("%d requests were sent while another group takes addresses", n)
	}
	c.taking.Unlock()
	if <-answered; wire.sent.Load() == 0 {
		t.Error("no request was sent")
	}
}
