package kube

import (
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/testing/expect"
)

// write writes text into a new file and returns its name.
func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	expect.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestConfigReadsKubeconfigWithoutRateLimit(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"gitVersion": "v1.36.0"}`))
	}))
	defer server.Close()
	config, err := Config(write(t, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: here}}],
		clusters: [{name: here, cluster: {server: "`+server.URL+`"}}]}`), slog.New(slog.DiscardHandler))
	expect.NoError(t, err)
	clients, err := kubernetes.NewForConfig(config)
	expect.NoError(t, err)
	if version, err := clients.Discovery().ServerVersion(); err != nil || version.GitVersion != "v1.36.0" {
		t.Errorf("reached %v, %v", version, err)
	}
	if limit := clients.CoreV1().RESTClient().GetRateLimiter(); limit != nil {
		t.Errorf("the client has a limit of %v requests a second", limit.QPS())
	}
}

func TestConfigErrorNamesTheCure(t *testing.T) {
	_, err := Config("/no/such/file", slog.New(slog.DiscardHandler))
	if err == nil || !strings.HasPrefix(err.Error(), "find the API server: ") ||
		!strings.HasSuffix(err.Error(), "/no/such/file: no such file or directory; run in a pod, or set --kubeconfig") {
		t.Errorf("got %v", err)
	}
}

func TestNamespaceOfThePod(t *testing.T) {
	for _, tt := range []struct{ name, file, want string }{
		{"in a pod", write(t, "purelb-system\n"), "purelb-system"},
		{"outside of a pod", "/no/such/file", ""},
	} {
		expect.Equal(t, tt.name, namespaceIn(tt.file), tt.want)
	}
}

func TestDeadConnectionSettingsOfTheEnvironment(t *testing.T) {
	const idle, ping = "HTTP2_READ_IDLE_TIMEOUT_SECONDS", "HTTP2_PING_TIMEOUT_SECONDS"
	t.Setenv(idle, "")
	t.Setenv(ping, "7")
	NoticeDeadConnections()
	expect.Equal(t, "the limits for an idle and an unanswered connection", os.Getenv(idle)+" "+os.Getenv(ping), "10 7")
}

func TestWritesHaveTheirOwnConnections(t *testing.T) {
	protocols := make(chan string, 2)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { protocols <- r.Proto }))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	usual := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}}
	for _, tt := range []struct {
		config *rest.Config
		want   string
	}{{usual, "HTTP/2.0"}, {ForWrites(usual), "HTTP/1.1"}} {
		client, err := rest.HTTPClientFor(tt.config)
		expect.NoError(t, err)
		answer, err := client.Get(server.URL)
		expect.NoError(t, err)
		_ = answer.Body.Close()
		expect.Equal(t, "the protocol of the client", <-protocols, tt.want)
	}

	to := server.Listener.Addr()
	c, err := ForWrites(usual).Dial(t.Context(), to.Network(), to.String())
	expect.NoError(t, err)
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn()
	expect.NoError(t, err)
	err = raw.Control(func(fd uintptr) {
		for option, want := range map[int]int{tcpUserTimeout: 15000, syscall.TCP_KEEPIDLE: 10, syscall.TCP_KEEPINTVL: 5, syscall.TCP_KEEPCNT: 1} {
			if got, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, option); got != want || err != nil {
				t.Errorf("option %d of TCP is %d, want %d, %v", option, got, want, err)
			}
		}
	})
	expect.NoError(t, err)
}

// A connection that is closed in the usual way still delivers what was written to it.
func TestAClosedConnectionOfWritesDeliversNothingMore(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	expect.NoError(t, err)
	defer server.Close()
	c, err := ForWrites(&rest.Config{}).Dial(t.Context(), "tcp", server.Addr().String())
	expect.NoError(t, err)
	at, err := server.Accept()
	expect.NoError(t, err)
	defer at.Close()
	expect.NoError(t, c.Close())
	if _, err := at.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection ends with %v, want a reset", err)
	}
}

func TestClientOfOneGroup(t *testing.T) {
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		program, _, _ := strings.Cut(r.UserAgent(), "/")
		asked = strings.Join([]string{r.URL.Path, r.Header.Get("Accept"), program}, " ")
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	for _, tt := range []struct {
		group schema.GroupVersion
		add   func(*runtime.Scheme) error
		want  string
	}{
		{corev1.SchemeGroupVersion, corev1.AddToScheme, "/api/v1/things/x application/vnd.kubernetes.protobuf,application/json"},
		{coordinationv1.SchemeGroupVersion, coordinationv1.AddToScheme, "/apis/coordination.k8s.io/v1/things/x application/vnd.kubernetes.protobuf,application/json"},
		{v2.GroupVersion, v2.AddToScheme, "/apis/purelb.io/v2/things/x application/json"},
	} {
		client, err := Client(&rest.Config{Host: server.URL}, tt.group, tt.add)
		expect.NoError(t, err)
		if err := client.Get().Resource("things").Name("x").Do(t.Context()).Error(); err == nil {
			t.Error("the client finds what is not there")
		}
		if want := tt.want + " " + filepath.Base(os.Args[0]); asked != want {
			t.Errorf("asked %q, want %q", asked, want)
		}
	}
}
