package ipam_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/ipam"
)

func TestRefusalNamesOwnerAndReason(t *testing.T) {
	b := ipam.NewStore()
	b.Grant("a/1", terms("k 80/TCP"))
	holdAll(t, b, "a/1", addrV4)
	tests := []struct {
		by, terms string
		want      ipam.HeldError
	}{
		{"a/2", "", ipam.HeldError{Addr: ip(addrV4), By: "a/1", Reason: ipam.HeldByKey}},
		{"a/3", "other", ipam.HeldError{Addr: ip(addrV4), By: "a/1", Reason: ipam.HeldByKey}},
		{"b/1", "k", ipam.HeldError{Addr: ip(addrV4), By: "a/1", Reason: ipam.HeldByNamespace}},
		{"a/4", "k 80/TCP", ipam.HeldError{Addr: ip(addrV4), By: "a/1", Reason: ipam.HeldByPort, Port: ipam.Port{Protocol: "TCP", Number: 80}}},
	}
	for _, tt := range tests {
		b.Grant(ipam.Owner(tt.by), terms(tt.terms))
		for _, err := range []error{b.Refuses(ip("::ffff:"+addrV4), ipam.Owner(tt.by), false), b.Hold(ip(addrV4), ipam.Owner(tt.by), false)} {
			var held *ipam.HeldError
			if !errors.As(err, &held) || *held != tt.want {
				t.Errorf("%s: got %#v, want %#v", tt.by, err, tt.want)
			}
		}
	}
	if err := b.Refuses(netip.Addr{}, "a/1", false); err == nil {
		t.Error("the zero address is not refused")
	}
}

func TestTermsLastUntilTheOwnerIsForgotten(t *testing.T) {
	b := ipam.NewStore()
	b.Grant("a/1", terms("k 443/TCP 80/UDP 80/TCP 443/TCP"))
	want := terms("k 80/TCP 80/UDP 443/TCP")
	holdAll(t, b, "a/1", addrV4)
	if diff := cmp.Diff(want, b.Terms("a/1")); diff != "" {
		t.Errorf("after the grant (-want +got):\n%s", diff)
	}
	clear(b.Terms("a/1").Ports) // Terms returns a copy
	b.Release(ip(addrV4), "a/1")
	if diff := cmp.Diff(want, b.Terms("a/1")); diff != "" {
		t.Errorf("after the release (-want +got):\n%s", diff)
	}
	b.Forget("a/1")
	if diff := cmp.Diff(ipam.Terms{}, b.Terms("a/1")); diff != "" {
		t.Errorf("after the owner is forgotten (-want +got):\n%s", diff)
	}
}

func TestSharedAddressCountsOnce(t *testing.T) {
	p := parse(t, "192.0.2.0/29", "192.0.2.0/29")
	b := ipam.NewStore()
	for i := range 3 {
		by := ipam.Owner(fmt.Sprintf("a/%d", i))
		b.Grant(by, ipam.Terms{Key: "k", Ports: []ipam.Port{{Protocol: "TCP", Number: int32(i)}}})
		holdAll(t, b, by, addrV4)
	}
	if used, free := b.InUse(p), b.Available(p).Int64(); used != 1 || free != 5 {
		t.Errorf("%d addresses in use and %d available", used, free)
	}
	for i := range 3 {
		if got := next(b, p); got != "192.0.2.2" {
			t.Errorf("the next address is %s with %d owners", got, 3-i)
		}
		b.Release(ip(addrV4), ipam.Owner(fmt.Sprintf("a/%d", i)))
	}
	if got := next(b, p); got != addrV4 {
		t.Errorf("next is %s", got)
	}
}

func TestSharedFindsTheAddressesOfAKeyInANamespace(t *testing.T) {
	b := ipam.NewStore()
	for _, by := range []ipam.Owner{"a/1", "a/2", "b/1"} {
		b.Grant(by, terms("k"))
	}
	holdAll(t, b, "a/1", "192.0.2.9", "192.0.2.7")
	holdAll(t, b, "b/1", "192.0.2.8")
	if err := b.Hold(netip.MustParseAddr("192.0.2.7"), "b/1", true); err != nil {
		t.Fatal(err)
	}
	is := func(when, want string) {
		t.Helper()
		if got := fmt.Sprintln(b.Shared("k", "a", addr.V4), b.Shared("k", "b", addr.V4), b.Shared("k", "", addr.V4)); got != want+"\n" {
			t.Errorf("%s: the addresses in a, in b and in all namespaces are %swant %s", when, got, want)
		}
	}
	is("at first", "[192.0.2.7 192.0.2.9] [192.0.2.8] [192.0.2.7 192.0.2.8 192.0.2.9]")
	b.Release(netip.MustParseAddr("192.0.2.7"), "a/1")
	is("after the first owner has left", "[192.0.2.9] [192.0.2.7 192.0.2.8] [192.0.2.7 192.0.2.8 192.0.2.9]")
}

func TestSharedFindsTheAddressesOfAKey(t *testing.T) {
	b := ipam.NewStore()
	for by, want := range map[ipam.Owner]string{"a/1": "k", "a/2": "k", "a/3": "l", "a/4": ""} {
		b.Grant(by, terms(want))
	}
	holdAll(t, b, "a/1", "192.0.2.200", "192.0.2.9", addrV6)
	holdAll(t, b, "a/2", "192.0.2.9", "192.0.2.70")
	holdAll(t, b, "a/3", "192.0.2.8")
	holdAll(t, b, "a/4", "192.0.2.7")
	shared := func(key string, f addr.Family) string { return fmt.Sprint(b.Shared(key, "", f)) }
	if got := shared("k", addr.V4); got != "[192.0.2.9 192.0.2.70 192.0.2.200]" {
		t.Errorf("IPv4 of k: %s", got)
	}
	if got := shared("k", addr.V6); got != "["+addrV6+"]" {
		t.Errorf("IPv6 of k: %s", got)
	}
	if got := shared("", addr.V4); got != "[]" {
		t.Errorf("of no key: %s", got)
	}
	b.Grant("a/1", ipam.Terms{})
	if got := shared("k", addr.V4); got != "[192.0.2.9 192.0.2.70]" {
		t.Errorf("after its last owner dropped the key: %s", got)
	}
	b.Grant("a/1", terms("l"))
	b.Grant("a/2", terms("l"))
	if k, l := shared("k", addr.V4), shared("l", addr.V4); k != "[]" || l != "[192.0.2.8 192.0.2.9 192.0.2.70 192.0.2.200]" {
		t.Errorf("after all owners want another key: %s and %s", k, l)
	}
}

func TestTheNamespaceOfAnOwner(t *testing.T) {
	for by, want := range map[ipam.Owner]string{"shop/web": "shop", "shop": "shop", "": ""} {
		if got := by.Namespace(); got != want {
			t.Errorf("%q: got %q", by, got)
		}
	}
}
