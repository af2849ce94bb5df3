package netbox_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/allocate/netbox"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/testing/netboxtest"
)

func kindOf(err error) ipam.Kind {
	var e *ipam.Error
	if !errors.As(err, &e) {
		return ""
	}
	return e.Kind
}

// want checks the kind of an error. "" means no error.
func want(t *testing.T, err error, kind ipam.Kind) {
	t.Helper()
	if kindOf(err) != kind || (err == nil) != (kind == "") {
		t.Fatalf("got %q: %v, want %q", kindOf(err), err, kind)
	}
}

// wantText checks the kind of an error, and that its text says something. It reports whether there
// must be no error.
func wantText(t *testing.T, err error, kind ipam.Kind, says string) (fine bool) {
	t.Helper()
	want(t, err, kind)
	if err != nil && !strings.Contains(err.Error(), says) {
		t.Errorf("%v does not say %q", err, says)
	}
	return err == nil
}

// claim claims one address.
func claim(t *testing.T, p *netbox.Pool, c ipam.Claim) (ipam.Grant, error) {
	t.Helper()
	answers := p.Claim(t.Context(), []ipam.Claim{c})
	if len(answers) != 1 {
		t.Fatalf("one claim got %d answers", len(answers))
	}
	return answers[0].Grant, answers[0].Err
}

// mustClaim claims one address, and fails the test if it gets none.
func mustClaim(t *testing.T, p *netbox.Pool, c ipam.Claim) ipam.Grant {
	t.Helper()
	g, err := claim(t, p, c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// held returns how many addresses have a key.
func (b *memoryNetBox) held() int {
	n := 0
	for _, a := range b.Server.Addresses() {
		if a.Key(config.NetBoxField) != "" {
			n++
		}
	}
	return n
}

// NetBox completes a request whose client has gone. Until then, a lookup finds nothing.
func TestLateRequestClaimsOnce(t *testing.T) {
	for _, mode := range []mode{inPrefixes, inReserved} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newMemoryNetBox(t, netboxtest.V46, mode)
				p := b.pool("ipamtest")
				release := b.Hold()
				for range 3 {
					_, err := claim(t, p, claimOf("web", addr.V4))
					want(t, err, ipam.KindUnknown)
				}
				if n := b.held(); n != 0 {
					t.Fatalf("%d addresses were claimed while the lock was held", n)
				}
				release()
				synctest.Wait()
				g := mustClaim(t, p, claimOf("web", addr.V4))
				if n := b.held(); n != 1 || !g.Address.IsValid() {
					t.Errorf("%d addresses are held for one claim, which got %s", n, g.Address)
				}
			})
		})
	}
}

// NetBox completes the first request after the second claim has looked for the key.
func TestLateNamedClaimIsGranted(t *testing.T) {
	for _, mode := range []mode{inPrefixes, inReserved} {
		for _, late := range []func(*http.Request) bool{
			func(r *http.Request) bool { return r.URL.Query().Has("address") },
			func(r *http.Request) bool {
				return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/ip-addresses/") && !r.URL.Query().Has("limit")
			},
		} {
			b := newMemoryNetBox(t, netboxtest.V46, mode)
			c := claimOf("web", "192.0.2.9")
			finished := false
			h := interrupt(b.Server, late, func(w http.ResponseWriter, r *http.Request) {
				if !finished {
					finished = true
					mustClaim(t, b.pool("ipamtest"), c)
				}
				b.ServeHTTP(w, r)
			})
			if g := mustClaim(t, b.prepared(b.clientOf(t, h)), c); g.Address != c.Address || b.held() != 1 {
				t.Errorf("%s: got %s, %d addresses are held", mode, g.Address, b.held())
			}
		}
	}
}

// faults are the faults that a request can have.
var faults = map[string]netboxtest.Fault{
	"fails before":    netboxtest.FailBefore,
	"fails after":     netboxtest.FailAfter,
	"loses the reply": netboxtest.LoseReply,
	"hangs":           netboxtest.HangReply,
}

// failAt makes the nth request from now fail.
func (b *memoryNetBox) failAt(n int, fault netboxtest.Fault) {
	count := 0
	b.SetFault(fault, func(*http.Request) bool { count++; return count == n })
}

// An allocator claims, fails at any request in any way, and starts again. In the end it holds one
// address. After it releases in the same way, it holds none.
func TestRestartAfterAnyFaultClaimsOnceAndReleasesAll(t *testing.T) {
	for _, version := range []string{netboxtest.V44, netboxtest.V46} {
		for _, mode := range []mode{inPrefixes, inReserved} {
			for name, fault := range faults {
				for n := 1; n <= 6; n++ {
					t.Run(fmt.Sprintf("%s/%s/request %d %s", version, mode, n, name), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { failAndRestart(t, version, mode, n, fault) })
					})
				}
			}
		}
	}
}

func failAndRestart(t *testing.T, version string, mode mode, n int, fault netboxtest.Fault) {
	b := newMemoryNetBox(t, version, mode)
	claims := []ipam.Claim{claimOf("named", "192.0.2.7"), claimOf("free", addr.V4), claimOf("free", addr.V6)}
	p := b.pool("ipamtest")
	b.failAt(n, fault)
	for _, a := range p.Claim(t.Context(), claims) {
		if k := kindOf(a.Err); a.Err != nil && k != ipam.KindUnknown && k != ipam.KindUnavailable {
			t.Errorf("%v", a.Err)
		}
	}
	b.SetFault(netboxtest.None, nil)
	p = b.pool("ipamtest")
	var grants []ipam.Grant
	for i, a := range p.Claim(t.Context(), claims) {
		if a.Err != nil {
			t.Fatalf("%s: %v", claims[i].Service, a.Err)
		}
		grants = append(grants, a.Grant)
	}
	if n := b.held(); n != len(claims) {
		t.Errorf("%d addresses are held for %d claims", n, len(claims))
	}
	b.failAt(n, fault)
	p.Release(t.Context(), grants)
	b.SetFault(netboxtest.None, nil)
	for _, err := range b.pool("ipamtest").Release(t.Context(), grants) {
		want(t, err, "")
	}
	if n := b.held(); n != 0 {
		t.Errorf("%d addresses are held after the release", n)
	}
}

// A proxy in front of NetBox strips the length of the body, and NetBox makes an address without a
// key. Each repetition would make another address.
func TestAddressWithoutItsKeyIsRemoved(t *testing.T) {
	for _, version := range []string{netboxtest.V44, netboxtest.V46} {
		b := newMemoryNetBox(t, version, inPrefixes)
		b.Strict = false
		h := interrupt(b.Server, func(r *http.Request) bool { return r.Method == http.MethodPost }, func(w http.ResponseWriter, r *http.Request) {
			r.ContentLength = -1
			b.ServeHTTP(w, r)
		})
		_, err := claim(t, b.prepared(b.clientOf(t, h)), claimOf("web", addr.V4))
		want(t, err, ipam.KindMisconfigured)
		if left := b.Server.Addresses(); len(left) != 0 {
			t.Errorf("%s: left over: %v", version, left)
		}
	}
}

// A reply may name an address that existed before the claim. The driver must not remove that
// address.
func TestOlderAddressIsNotRemoved(t *testing.T) {
	b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
	b.keyed("192.0.2.3/28", "")
	h := interrupt(b.Server, path(http.MethodPost, "/available-ips/"),
		jsonAnswer(201, `{"id":1,"address":"192.0.2.3/28","vrf":{"id":1},"status":{"value":"active"},"custom_fields":{},"created":"2020-01-01T00:00:00Z"}`))
	_, err := claim(t, b.prepared(b.clientOf(t, h)), claimOf("web", addr.V4))
	want(t, err, ipam.KindMisconfigured)
	if len(b.Server.Addresses()) != 1 {
		t.Error("the address was removed")
	}
}
