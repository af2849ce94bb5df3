package backends_test

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"purelb.io/purelb/internal/allocate/backends"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/allocate/netbox"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/testing/netboxtest"
)

// world is a Manager with NetBox servers, on a fake clock that advances only when all goroutines
// wait.
type world struct {
	*testing.T
	ledger  *ledger
	manager *backends.Manager
	options backends.Options
	servers map[string]*netboxtest.Server
	// handlers, by server, get the requests before the server.
	handlers map[string]http.Handler

	mu      sync.Mutex
	secrets map[config.SecretKey]string
	// changes are the groups whose State changed. For each request, sent has the time and urls the
	// URL.
	changes []string
	sent    []time.Time
	urls    []string
	// lastConfig is the configuration of the newest client.
	lastConfig netbox.Config
}

// in runs a test in a world with the server "netbox.example".
func in(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, ledger: newLedger(), servers: map[string]*netboxtest.Server{}, handlers: map[string]http.Handler{},
			secrets: map[config.SecretKey]string{token: netboxtest.AdminToken}}
		w.options = backends.Options{Secret: w.secret, Changed: w.noteChange, Log: slog.New(slog.DiscardHandler),
			NetBox: w.client, Exchange: w.noteExchange}
		w.serve("netbox.example")
		w.ledger.poke = func(due ...ipam.Holder) {
			if w.manager != nil {
				w.manager.Poke(due...)
			}
		}
		test(w)
		for name, s := range w.servers {
			for _, complaint := range s.Complaints() {
				t.Errorf("%s refuses this as unknown: %s", name, complaint)
			}
		}
	})
}

// inGroup runs a test in a world whose manager has the group "lb" of 192.0.2.0/24.
func inGroup(t *testing.T, test func(w *world)) {
	in(t, func(w *world) {
		defer w.start(on("netbox.example", "lb", "192.0.2.0/24"))()
		test(w)
	})
}

// serve adds a NetBox with a prefix of 254 addresses and a range of 6 IPv6 addresses.
func (w *world) serve(name string) *netboxtest.Server {
	s := netboxtest.New(netboxtest.V46)
	s.AddField(netboxtest.CustomField{Name: config.NetBoxField, Unique: true})
	s.AddBlock(netboxtest.Block{Prefix: netip.MustParsePrefix("192.0.2.0/24")})
	s.AddBlock(netboxtest.Block{Prefix: netip.MustParsePrefix("10.0.0.0/16")})
	s.AddBlock(netboxtest.Block{Prefix: netip.MustParsePrefix("2001:db8::10/64"), End: netip.MustParseAddr("2001:db8::15")})
	w.servers[name] = s
	return s
}

// client makes a client for the server that the URL names.
func (w *world) client(cfg netbox.Config) (*netbox.Client, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.lastConfig = cfg
	w.mu.Unlock()
	cfg.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		w.mu.Lock()
		w.sent, w.urls = append(w.sent, time.Now()), append(w.urls, r.URL.String())
		h := w.handlers[u.Host]
		w.mu.Unlock()
		if h == nil {
			h = w.servers[u.Host]
		}
		return netboxtest.Transport(h).RoundTrip(r)
	})
	return netbox.New(cfg)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// intercept puts a handler before a server. nil removes it.
func (w *world) intercept(name string, h http.Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handlers[name] = h
}

func (w *world) secret(_ context.Context, key config.SecretKey) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return []byte(w.secrets[key]), nil
}

func (w *world) setSecret(key config.SecretKey, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secrets[key] = value
}

func (w *world) noteChange(group string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes = append(w.changes, group)
}

func (w *world) noteExchange(netbox.Exchange) {}

// requests returns the times of the requests since its last call.
func (w *world) requests() []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	sent := w.sent
	w.sent = nil
	return sent
}

// requested returns the URLs of all requests to a server.
func (w *world) requested(server string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.urls), func(u string) bool { return !strings.HasPrefix(u, "http://"+server+"/") })
}

// start runs the manager until the caller calls stop, which waits for its end.
func (w *world) start(groups ...config.Backend) (stop func()) {
	if w.manager == nil {
		w.manager = backends.New(w.ledger, w.options)
	}
	w.manager.Set(groups)
	return run(w.Context(), w.manager)
}

// run runs a manager until ctx ends or the caller calls stop, which waits for its end.
func run(ctx context.Context, m *backends.Manager) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.Run(ctx, netbox.Identity{Cluster: cluster})
	}()
	return func() {
		cancel()
		<-ended
	}
}

// after lets this much time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// state returns the state of a group.
func (w *world) state(group string) backends.State {
	all := w.manager.States()
	s, known := all[group]
	if !known {
		w.Fatalf("no state of %s in %v", group, all)
	}
	return s
}

// fault returns the kind of fault of a group, and its message.
func (w *world) fault(group string) (ipam.Kind, string) {
	if f := w.state(group).Fault; f != nil {
		return f.Kind, f.Message
	}
	return "", ""
}

// hasFault fails unless the group has a fault of this kind, or none if kind is "".
func (w *world) hasFault(group string, kind ipam.Kind) {
	w.Helper()
	if is, message := w.fault(group); is != kind {
		w.Errorf("the fault of %s is %q (%s), want %q", group, is, message, kind)
	}
}

// counts fails unless the last sweep found so many differences for the group.
func (w *world) counts(group string, orphans, missing int) {
	w.Helper()
	if s := w.state(group); s.Orphans != orphans || s.Missing != missing {
		w.Errorf("%d orphans and %d missing of %s, want %d and %d", s.Orphans, s.Missing, group, orphans, missing)
	}
}

// holds compares the ledger's entry of a group with want.
func (w *world) holds(group, want string) {
	w.Helper()
	if got := w.ledger.print(group); got != want {
		w.Errorf("the group %s has %q, want %q", group, got, want)
	}
}

// kept returns the keys and addresses that a server has, in the ledger's format.
func (w *world) kept(server string) string {
	var lines []string
	for _, a := range w.servers[server].Addresses() {
		key := cmp.Or(a.Key(config.NetBoxField), "nobody")
		lines = append(lines, short(key)+"="+a.Prefix.Addr().String())
	}
	slices.Sort(lines)
	return strings.Join(lines, " ")
}

// keeps compares the content of a server with want.
func (w *world) keeps(server, want string) {
	w.Helper()
	if got := w.kept(server); got != want {
		w.Errorf("%s has %q, want %q", server, got, want)
	}
}

var token = config.SecretKey{Namespace: "purelb", Name: "netbox", Key: "token"}

// on returns a group with addresses of a server.
func on(server, group, prefix string) config.Backend {
	return config.Backend{Group: group, NetBox: &config.NetBox{
		URL: "http://" + server, Token: token, Field: config.NetBoxField, Status: "active",
		Parents: []config.NetBoxParent{{Prefix: netip.MustParsePrefix(prefix)}},
	}}
}
