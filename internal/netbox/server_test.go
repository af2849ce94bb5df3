package netbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/netbox"
	"purelb.io/purelb/internal/testing/ipamtest"
	"purelb.io/purelb/internal/testing/netboxtest"
)

// remote is a NetBox, perhaps a real one, that the test reaches only by its API. The test works in
// a VRF and a tenant of its own, and removes both at the end.
type remote struct {
	t          *testing.T
	url, token string
	mode       netbox.Mode
	name       string
	vrf        int64
	lose       atomic.Bool
	// shared is the client of all drivers if the server cannot tell two clients apart.
	shared *netbox.Client
}

// servers are the servers whose drivers the test checks over TCP: the NetBox of this package, and a
// real one if NETBOX_URL and NETBOX_TOKEN name it. That token must belong to an administrator.
func servers(t *testing.T) map[string]func() (url, token string) {
	list := map[string]func() (string, string){}
	for _, version := range []string{netboxtest.V44, netboxtest.V46} {
		list[version] = func() (string, string) {
			server := httptest.NewServer(netboxtest.New(version))
			t.Cleanup(server.Close)
			return server.URL, netboxtest.AdminToken
		}
	}
	if url := os.Getenv("NETBOX_URL"); url != "" {
		list["real"] = func() (string, string) { return url, os.Getenv("NETBOX_TOKEN") }
	}
	return list
}

func TestServersKeepTheContract(t *testing.T) {
	for name, server := range servers(t) {
		for _, mode := range []netbox.Mode{netbox.ModePrefix, netbox.ModeReserved} {
			t.Run(name+"/"+string(mode), func(t *testing.T) {
				url, token := server()
				ipamtest.Contract(t, func(t *testing.T) ipamtest.Backend { return newRemote(t, url, token, mode) })
			})
		}
	}
}

func newRemote(t *testing.T, url, token string, mode netbox.Mode) *remote {
	r := &remote{t: t, url: url, token: token, mode: mode, name: fmt.Sprintf("purelb-test-%d", rand.Uint32())}
	r.vrf = r.create("ipam/vrfs/", map[string]any{"name": r.name, "enforce_unique": true})
	tenant := r.create("tenancy/tenants/", map[string]any{"name": r.name, "slug": r.name})
	if mode == netbox.ModeReserved {
		for _, a := range append(r.Addresses(addr.V4), r.Addresses(addr.V6)...) {
			r.create("ipam/ip-addresses/", map[string]any{"address": netip.PrefixFrom(a, a.BitLen()).String(), "vrf": r.vrf, "tenant": tenant, "status": "reserved"})
		}
		r.shared = r.client()
	} else {
		r.create("ipam/prefixes/", map[string]any{"prefix": "192.0.2.0/28", "vrf": r.vrf})
		r.create("ipam/ip-ranges/", map[string]any{"start_address": "2001:db8::10/64", "end_address": "2001:db8::15/64", "vrf": r.vrf})
	}
	t.Cleanup(r.removeAddresses)
	return r
}

// call sends a request of the test itself. It has its own context, because that of the test ends
// before cleanups run.
func (r *remote) call(method, path string, body any, into any) {
	r.t.Helper()
	var text []byte
	var err error
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			r.t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(context.Background(), method, r.url+"/api/"+path, bytes.NewReader(text))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Token "+r.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		r.t.Fatalf("%s %s %s: HTTP %d %s %v", method, path, text, resp.StatusCode, got, err)
	}
	if into != nil {
		if err := json.Unmarshal(got, into); err != nil {
			r.t.Fatal(err)
		}
	}
}

// create makes an object, and removes it at the end of the test.
func (r *remote) create(path string, body any) int64 {
	r.t.Helper()
	var made struct{ ID int64 }
	r.call(http.MethodPost, path, body, &made)
	if path != "ipam/ip-addresses/" {
		r.t.Cleanup(func() { r.call(http.MethodDelete, fmt.Sprintf("%s%d/", path, made.ID), nil, nil) })
	}
	return made.ID
}

// removeAddresses removes all addresses of the test's VRF.
func (r *remote) removeAddresses() {
	var found struct{ Results []struct{ ID int64 } }
	r.call(http.MethodGet, fmt.Sprintf("ipam/ip-addresses/?vrf_id=%d&limit=1000", r.vrf), nil, &found)
	for _, a := range found.Results {
		r.call(http.MethodDelete, fmt.Sprintf("ipam/ip-addresses/%d/", a.ID), nil, nil)
	}
}

// RoundTrip carries the requests of drivers. It loses an answer if LoseAnswer was called.
func (r *remote) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err == nil && req.Method != http.MethodGet && r.lose.CompareAndSwap(true, false) {
		_ = resp.Body.Close()
		return nil, io.ErrUnexpectedEOF
	}
	return resp, err
}

func (r *remote) LoseAnswer() { r.lose.Store(true) }

func (r *remote) client() *netbox.Client {
	r.t.Helper()
	c, err := netbox.New(netbox.Config{URL: r.url, Token: r.token, Rate: 1000, Timeout: patience, Transport: r})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *remote) Driver(cluster string) ipamtest.Driver {
	r.t.Helper()
	c := r.shared
	if c == nil {
		c = r.client()
	}
	g := netbox.Group{Name: "default", Cluster: cluster, Mode: r.mode}
	if r.mode == netbox.ModeReserved {
		g.Tenant = r.name
	} else {
		g.Parents = []netbox.Parent{{Kind: netbox.Prefix, Prefix: netip.MustParsePrefix("192.0.2.0/28"), VRF: r.name}, {Kind: netbox.Range, VRF: r.name}}
	}
	p, err := c.Prepare(r.t.Context(), g)
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

func (r *remote) Addresses(f addr.Family) []netip.Addr { return (&memoryNetBox{}).Addresses(f) }
