package netbox_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/allocate/netbox"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/testing/netboxtest"
)

// connect returns a client that is fast, and patient with a busy machine.
func connect(t testing.TB, cfg netbox.Config) *netbox.Client {
	t.Helper()
	if cfg.Token == "" {
		cfg.Token = netboxtest.AdminToken
	}
	cfg.Rate, cfg.Timeout = 1e6, patience
	c, err := netbox.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Half an answer has the status of success and a length that its body does not reach.
func TestHalfAnAnswerIsUnknown(t *testing.T) {
	b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
	server := httptest.NewServer(interrupt(b.Server, path(http.MethodPost, "/available-ips/"), func(w http.ResponseWriter, r *http.Request) {
		netboxtest.Execute(b.Server, r)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "500")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"id":1,`))
	}))
	defer server.Close()
	p := b.prepared(connect(t, netbox.Config{URL: server.URL}))
	_, err := claim(t, p, claimOf("web", addr.V4))
	wantText(t, err, ipam.KindUnknown, "connection broke")
	mustClaim(t, p, claimOf("web", addr.V4))
	if b.held() != 1 {
		t.Errorf("%d addresses are held", b.held())
	}
}

// Nothing listens, so NetBox did not get the request.
func TestRefusedConnectionIsUnavailable(t *testing.T) {
	for _, refuse := range map[string]error{
		"refused":  &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED},
		"no proxy": &net.OpError{Op: "proxyconnect", Net: "tcp", Err: syscall.ECONNREFUSED},
		"no name":  &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "netbox.example", IsNotFound: true}},
	} {
		b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
		down := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, refuse }}
		_, err := connect(t, netbox.Config{URL: "http://netbox.example", Transport: down}).Prepare(t.Context(), b.group)
		wantText(t, err, ipam.KindUnavailable, "no connection")
	}
}

func TestCertificatesMustBeTrusted(t *testing.T) {
	b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
	server := httptest.NewUnstartedServer(b.Server)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // errors of the handshake, which must fail
	server.StartTLS()
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	mustClaim(t, b.prepared(connect(t, netbox.Config{URL: server.URL, CA: ca})), claimOf("web", addr.V4))
	_, err := connect(t, netbox.Config{URL: server.URL}).Prepare(t.Context(), b.group)
	wantText(t, err, ipam.KindMisconfigured, "certificate is not trusted")
	_, err = connect(t, netbox.Config{URL: "https://" + plain(t)}).Prepare(t.Context(), b.group)
	wantText(t, err, ipam.KindMisconfigured, "does not speak TLS")
}

// plain is the address of a server without TLS.
func plain(t *testing.T) string {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// NetBox ignores a body without a length, and redirects a path without its final slash.
func TestRequestsHaveLengthAndFinalSlash(t *testing.T) {
	for token, scheme := range map[string]string{netboxtest.AdminToken: "Token ", "nbt_abcdefghijkl." + netboxtest.AdminToken: "Bearer "} {
		b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
		b.SetToken(token, netboxtest.Token{})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != scheme+token || r.Header.Get("Accept") != "application/json" || !strings.HasSuffix(r.URL.Path, "/") {
				t.Errorf("%s %s with %v", r.Method, r.URL, r.Header)
			}
			if r.Method == http.MethodPost && (r.ContentLength <= 0 || len(r.TransferEncoding) > 0 || r.Header.Get("Content-Type") != "application/json") {
				t.Errorf("%s %s has length %d, encoding %v", r.Method, r.URL, r.ContentLength, r.TransferEncoding)
			}
			if len(r.URL.String()) > 4000 {
				t.Errorf("the request line has %d characters", len(r.URL.String()))
			}
			b.ServeHTTP(w, r)
		}))
		p := b.prepared(connect(t, netbox.Config{URL: server.URL, Token: " " + token + "\n"}))
		var claims []ipam.Claim
		for i := range 100 {
			claims = append(claims, claimOf(fmt.Sprintf("%s-%d", strings.Repeat("long", 14), i), addr.V4))
		}
		if k := kinds(p.Claim(t.Context(), claims)); k[""] != 14 {
			t.Errorf("answers %v", k)
		}
		server.Close()
	}
}

// A server may repeat the request in its answer.
func TestTokenIsNotRepeated(t *testing.T) {
	token := "nbt_abcdefghijkl.secretsecretsecretsecret"
	echo := netboxtest.Transport(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		jsonAnswer(403, fmt.Sprintf(`{"detail":"Invalid token: %s"}`, r.Header.Get("Authorization")))(w, r)
	}))
	_, err := connect(t, netbox.Config{URL: "http://netbox.example", Token: token, Transport: echo}).Prepare(t.Context(), netbox.Group{Identity: netbox.Identity{Cluster: "c"}, NetBox: config.NetBox{Reserved: true, Field: config.NetBoxField, Tenant: config.NetBoxTenant}})
	want(t, err, ipam.KindMisconfigured)
	if strings.Contains(fmt.Sprintf("%v %+v", err, err), "secretsecret") {
		t.Error(err)
	}
}

func TestUnusableConfigurationsAreRefused(t *testing.T) {
	for says, cfg := range map[string]netbox.Config{
		"is not the URL":          {URL: "netbox.example.com", Token: "x"},
		`"ftp://x" is not`:        {URL: "ftp://x", Token: "x"},
		`"https://:8080/" is not`: {URL: "https://:8080/", Token: "x"},
		"has a user":              {URL: "https://me:secret@netbox.example.com/", Token: "x"},
		"there is no token":       {URL: "https://netbox.example.com/"},
		"blanks or characters":    {URL: "https://netbox.example.com/", Token: "a b"},
		"no certificate in PEM":   {URL: "https://netbox.example.com/", Token: "x", CA: []byte("-----")},
		"has a user, a query or":  {URL: "https://netbox.example.com/?token=secret", Token: "x"},
	} {
		_, err := netbox.New(cfg)
		wantText(t, err, ipam.KindMisconfigured, says)
		if strings.Contains(err.Error(), "secret@") || strings.Contains(err.Error(), "=secret") {
			t.Errorf("%v repeats the secret", err)
		}
	}
}

// The documents of earlier versions wrote the URL with and without "/api" and a final slash.
func TestURLsOfEarlierVersionsWork(t *testing.T) {
	for _, suffix := range []string{"", "/", "/api", "/api/", "/netbox", "/netbox/api/"} {
		b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
		h := http.StripPrefix(strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(suffix, "/"), "/api"), "/"), b.Server)
		c := connect(t, netbox.Config{URL: "http://netbox.example" + suffix, Transport: netboxtest.Transport(h)})
		mustClaim(t, b.prepared(c), claimOf("web", addr.V4))
	}
}

// All groups of a server together send one request at a time, and keep to the rate.
func TestOneRequestIsInFlightAtTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
		b.Latency = func(*http.Request) time.Duration { return 10 * time.Millisecond }
		c, err := netbox.New(netbox.Config{URL: "http://netbox.example", Token: netboxtest.AdminToken, Rate: 10, Transport: netboxtest.Transport(b.Server)})
		if err != nil {
			t.Fatal(err)
		}
		p, q := b.prepared(c), b.prepared(c)
		before, started := len(b.Requests()), time.Now()
		var all sync.WaitGroup
		for i := range 16 {
			pool := []*netbox.Pool{p, q}[i%2]
			all.Go(func() { mustClaim(t, pool, claimOf(fmt.Sprintf("web-%d", i%12), addr.V4)) })
		}
		all.Wait()
		sent, took := len(b.Requests())-before, time.Since(started)
		if b.MostInFlight() != 1 || took < time.Duration(sent-1)*100*time.Millisecond {
			t.Errorf("%d requests, %d at once, in %v", sent, b.MostInFlight(), took)
		}
	})
}

// A caller without time left sends nothing.
func TestCallerWithoutTimeSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
		p := b.pool("ipamtest")
		release := b.Hold()
		go p.Claim(context.Background(), []ipam.Claim{claimOf("first", addr.V4)})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		want(t, p.Claim(ctx, []ipam.Claim{claimOf("second", addr.V4)})[0].Err, ipam.KindUnavailable)
		release()
		synctest.Wait()
		if b.held() != 1 {
			t.Errorf("%d addresses are held, want that of the first", b.held())
		}
	})
}

// The metrics are computed from these observations.
func TestExchangesAreObserved(t *testing.T) {
	b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
	var seen []string
	c := connect(t, netbox.Config{URL: "http://netbox.example", Transport: netboxtest.Transport(b.Server), Observe: func(e netbox.Exchange) {
		if e.Call != "prepare" {
			seen = append(seen, fmt.Sprintf("%s %d", e.Call, e.Status))
		}
	}})
	b.group.Parents = []config.NetBoxParent{{Prefix: netip.MustParsePrefix("192.0.2.0/28")}}
	p := b.prepared(c)
	answers := p.Claim(t.Context(), many(1))
	b.LoseAnswer()
	p.Release(t.Context(), []ipam.Grant{answers[0].Grant})
	if got := strings.Join(seen, ", "); got != "status 200, look 200, claim 201, look 200, release 0" {
		t.Errorf("seen %s", got)
	}
}
