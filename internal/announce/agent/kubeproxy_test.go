package agent

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/testing/expect"
)

// answeringWith returns a server that answers with this status.
func answeringWith(t *testing.T, status int) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	t.Cleanup(server.Close)
	return server
}

func hostOf(server *httptest.Server) string {
	u, _ := url.Parse(server.URL) // the server made it
	return u.Host
}

func TestKubeProxyWorksWhenItsServicesDo(t *testing.T) {
	works, service := answeringWith(t, 200), answeringWith(t, 200)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, tt := range []struct {
		name            string
		asked           ProxyHealth
		works, answered bool
	}{
		{"it works", ProxyHealth{works.URL, hostOf(service)}, true, true},
		{"no Service is known", ProxyHealth{works.URL, ""}, true, true},
		{"it has started, and has no rules yet", ProxyHealth{works.URL, hostOf(gone)}, false, false},
		{"it says that it does not work", ProxyHealth{answeringWith(t, 503).URL, hostOf(service)}, false, true},
		{"another program answers", ProxyHealth{answeringWith(t, 404).URL, hostOf(service)}, false, false},
		{"it has not started", ProxyHealth{gone.URL, hostOf(service)}, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answered, err := tt.asked.kubeProxy().Works(t.Context())
			expect.Equal(t, "works", err == nil, tt.works)
			expect.Equal(t, "answered", answered, tt.answered)
		})
	}
	if asked := (ProxyHealth{}).kubeProxy(); asked != nil {
		t.Errorf("with none, it asks %v", asked)
	}
}

func TestKubeProxyIsAskedWhereItMayListen(t *testing.T) {
	for _, tt := range []struct {
		name             string
		status           int
		at               []string
		serves, answered bool
	}{
		{"an endpoint", 200, []string{"127.0.0.1"}, true, true},
		{"no endpoint yet", 503, []string{"127.0.0.1"}, false, true},
		{"only at another address of the node", 200, []string{"127.0.0.7", "127.0.0.1"}, true, true},
		{"nowhere", 200, []string{"127.0.0.7"}, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u, err := url.Parse(answeringWith(t, tt.status).URL)
			expect.NoError(t, err)
			port, err := strconv.ParseUint(u.Port(), 10, 16)
			expect.NoError(t, err)
			var at []netip.Addr
			for _, ip := range tt.at {
				at = append(at, addrOf(ip))
			}
			serves, answered := ProxyHealth{URL: "http://127.0.0.1"}.kubeProxy().Serves(t.Context(), uint16(port), at)
			expect.Equal(t, "serves", serves, tt.serves)
			expect.Equal(t, "answered", answered, tt.answered)
		})
	}
	ofNode := []netip.Addr{addrOf("192.0.2.1"), addrOf("2001:db8::1")}
	expect.Equal(t, "IPv4", fmt.Sprint(healthAddresses(addr.V4, ofNode)), "[127.0.0.1 192.0.2.1]")
	expect.Equal(t, "IPv6", fmt.Sprint(healthAddresses(addr.V6, ofNode)), "[::1 2001:db8::1]")
}

// fakeProxy is a kube-proxy. It is silent until it works or says no.
type fakeProxy struct {
	works, saysNo bool
	// starts says that it answers and has not written its rules.
	starts bool
	// serves are the health ports of Services with an endpoint. silent says that it answers at none.
	serves map[uint16]bool
	silent bool
	asked  int
}

func (p *fakeProxy) Works(context.Context) (answered bool, err error) {
	if p.works {
		return true, nil
	}
	if p.starts {
		return false, errNoRules
	}
	return p.saysNo, fmt.Errorf("refused")
}

func (p *fakeProxy) Serves(_ context.Context, port uint16, _ []netip.Addr) (serves, answered bool) {
	p.asked++
	return p.serves[port] && !p.silent, !p.silent
}
