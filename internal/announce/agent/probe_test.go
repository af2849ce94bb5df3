package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/announce/probe"
	"purelb.io/purelb/internal/kube/callers"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/nodes/membership"
	"purelb.io/purelb/internal/testing/expect"
)

// neighborhood is another network namespace with its own thread.
type neighborhood struct {
	t     *testing.T
	tasks chan func()
	path  string
}

func newNeighborhood(t *testing.T) neighborhood {
	t.Helper()
	n := neighborhood{t: t, tasks: make(chan func())}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread dies with the test
		err := unix.Unshare(unix.CLONE_NEWNET)
		n.path = fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
		made <- err
		for f := range n.tasks {
			f()
		}
	}()
	expect.NoError(t, <-made)
	t.Cleanup(func() { close(n.tasks) })
	return n
}

// in runs f in the neighborhood.
func (n neighborhood) in(f func()) {
	done := make(chan struct{})
	n.tasks <- func() { defer close(done); f() }
	<-done
}

// ip runs iproute2's command there, once per line of script.
func (n neighborhood) ip(script string) {
	n.t.Helper()
	n.in(func() { ip(n.t, script) })
}

// token returns a token of the account. Its audience is the probe of ip, or the API server if ip
// is empty.
func (c cluster) token(account, ip string) string {
	c.t.Helper()
	request := &authenticationv1.TokenRequest{}
	if ip != "" {
		request.Spec.Audiences = []string{probe.Audience(addrOf(ip))}
	}
	request, err := c.core.CoreV1().ServiceAccounts(c.namespace).CreateToken(c.t.Context(), account, request, metav1.CreateOptions{})
	expect.NoError(c.t, err)
	return request.Status.Token
}

// accounts makes two ServiceAccounts. purelb-prober may ask for probes, and viewer may not.
func (c cluster) accounts() {
	c.t.Helper()
	for _, name := range []string{probe.Account, "viewer"} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := c.core.CoreV1().ServiceAccounts(c.namespace).Create(c.t.Context(), account, metav1.CreateOptions{}); err != nil {
			c.t.Fatal(err)
		}
	}
}

// ask sends a request for a probe to handler.
func ask(t *testing.T, handler http.Handler, token, body string) (code int, text string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, probe.Path, strings.NewReader(body))
	r.Header.Set(probe.Header, token)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Code, strings.TrimSpace(w.Body.String())
}

// found sends a request about ip and prints the answer in one line.
func found(t *testing.T, handler http.Handler, ip string) string {
	t.Helper()
	code, text := ask(t, handler, "", `{"address": "`+ip+`"}`)
	var a probe.Answer
	if err := json.Unmarshal([]byte(text), &a); err != nil || code != http.StatusOK {
		return fmt.Sprint(code, " ", text)
	}
	line := a.Result
	for _, m := range a.Machines {
		line += " " + m.MAC + " " + m.Node
	}
	return strings.TrimSpace(line + " " + a.Why)
}

// everyone admits all callers.
type everyone struct{}

func (everyone) Admit(context.Context, netip.Addr, string, string) error { return nil }

// probingAgent runs an agent with the pools 192.0.2.0/24 and 2001:db8::/64, and returns its
// handler. node-b is another node with the addresses 192.0.2.2 and 2001:db8::2.
func probingAgent(t *testing.T, kernel Kernel, c Callers, log *slog.Logger) http.Handler {
	t.Helper()
	cluster := &fakeCluster{changed: make(chan struct{}, 1), snapshot: objects{Snapshot: Snapshot{
		Node:   &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: "node-a-uid"}},
		Groups: []v2.ServiceGroup{localGroup("local", "192.0.2.0/24", "2001:db8::/64"), remoteGroup("remote", "203.0.113.0/24", "2001:db8:9::/64")},
		Agents: []v2.LBNodeAgent{lbNodeAgent("default", v2.InterfaceSpec{})},
	}}}
	b := peer("node-b")
	b.Reachable = true
	peers := &fakePeers{changed: make(chan struct{}, 1), received: make(chan membership.Message, 16), peers: election.Peers{
		Members: []election.Member{peer("node-a"), b}, Known: subnets, Trusted: true,
		Own:  map[netip.Addr]string{addrOf("192.0.2.2"): "node-b", addrOf("2001:db8::2"): "node-b"},
		MACs: map[[6]byte]string{{2, 0, 0, 0, 0, 2}: "node-b"},
	}}
	registry := prometheus.NewRegistry()
	a := New(Options{
		Node: "node-a", Namespace: "purelb", Kernel: kernel, Cluster: cluster, Peers: peers, Annotations: &fakeAnnotations{cluster: cluster},
		Events: new(eventCount), Metrics: NewMetrics(registry, 1000), Log: log, Callers: c,
	})
	run(t, a.Run)
	eventually(t, "the agent is ready", func() bool { return a.Ready() == nil })
	return a.Handler(registry)
}

func TestAProbeDistinguishesNodesMachinesAndSilence(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	far := newNeighborhood(t)
	ip(t, "link set far0 netns "+far.path)
	// Each host answers only for its own addresses.
	far.in(func() {
		if err := os.WriteFile("/proc/sys/net/ipv4/conf/all/arp_ignore", []byte("1"), 0); err != nil {
			t.Error(err)
		}
	})
	far.ip(`link set lo up
		link set far0 up
		link add nodeb link far0 address 02:00:00:00:00:02 type macvlan mode bridge
		link add other link far0 address 02:00:00:00:00:07 type macvlan mode bridge
		link set nodeb up
		link set other up
		addr add 192.0.2.2/24 dev nodeb
		addr add 192.0.2.60/32 dev nodeb
		addr add 2001:db8::2/64 dev nodeb nodad
		addr add 2001:db8::60/64 dev nodeb nodad
		addr add 192.0.2.50/24 dev other
		addr add 2001:db8::50/64 dev other nodad`)
	eventually(t, "eth0 is up", func() bool {
		node, err := m.stack.Observe(t.Context())
		expect.NoError(t, err)
		for _, l := range node.Links {
			if l.Name == "eth0" {
				return l.Works()
			}
		}
		return false
	})
	changes, err := m.stack.Changes(t.Context())
	expect.NoError(t, err)
	handler := probingAgent(t, local{m.stack, changes}, everyone{}, slog.New(slog.DiscardHandler))
	for ip, want := range map[string]string{
		"192.0.2.50":    "answered 02:00:00:00:00:07",
		"2001:db8::50":  "answered 02:00:00:00:00:07",
		"192.0.2.60":    "answered 02:00:00:00:00:02 node-b",
		"2001:db8::60":  "answered 02:00:00:00:00:02 node-b",
		"192.0.2.70":    "silent",
		"2001:db8::70":  "silent",
		"203.0.113.7":   "offLink no interface of this node has an address in a network with 203.0.113.7",
		"198.51.100.50": "unknown neither a ServiceGroup nor a Service has 198.51.100.50, and agents ask for no other addresses",
	} {
		// On a busy machine, the first answer of Neighbor Discovery may arrive too late.
		eventuallyIs(t, ip, want, func() string { return found(t, handler, ip) })
	}
	far.ip("link set nodeb down")
	eventuallyIs(t, "without a control", "unknown no machine answers on eth0, not even those that must", func() string { return found(t, handler, "192.0.2.70") })
}

func TestOnlyTheProberMayProbe(t *testing.T) {
	c := newCluster(t)
	c.accounts()
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	gate := callers.New(callers.Options{
		Tokens:  c.core.AuthenticationV1().TokenReviews(),
		Account: "system:serviceaccount:" + c.namespace + ":" + probe.Account, Log: logger,
	})
	kernel := newFakeKernel()
	kernel.answers["192.0.2.9"] = someMAC
	handler := probingAgent(t, kernel, gate, slog.New(slog.DiscardHandler))

	const body = `{"address": "192.0.2.9"}`
	good := c.token(probe.Account, "192.0.2.9")
	for _, tt := range []struct {
		name, token, body string
		code              int
		text              string
	}{
		{"with the right token", good, body, 200, `"result":"answered"`},
		{"without a token", "", body, 401, "the token is missing, expired, or not for this request"},
		{"with a malformed token", "abc", body, 401, "the token is missing, expired, or not for this request"},
		{"with a token for another address", c.token(probe.Account, "192.0.2.10"), body, 401, "the token is missing, expired, or not for this request"},
		{"of another account", c.token("viewer", "192.0.2.9"), body, 403, "the caller has no right to ask: only system:serviceaccount:" + c.namespace + ":purelb-prober may"},
		{"with a token for the API server", c.token(probe.Account, ""), body, 401, "the token is missing"},
		{"about a name", good, `{"address": "web"}`, 400, "the body is not"},
		{"about a loopback address", good, `{"address": "127.0.0.1"}`, 400, "the body is not"},
		{"with a body that is too long", good, `{"address": "192.0.2.9"` + strings.Repeat(" ", 2000) + "}", 400, "the body is not"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, text := ask(t, handler, tt.token, tt.body)
			if code != tt.code || !strings.Contains(text, tt.text) {
				t.Errorf("the answer is %d %s, want %d and %q", code, text, tt.code, tt.text)
			}
		})
	}
	refused := 0
	for range 30 {
		if code, _ := ask(t, handler, good, body); code == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused == 0 {
		t.Error("the requests of a caller have no limit")
	}
	if lines := strings.Count(log.String(), "callerRefused"); lines == 0 || lines > 6 {
		t.Errorf("the log has %d refusals, want a few:\n%s", lines, log.String())
	}
}
