package apiserver

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
)

// write returns the name of a file with text in it.
func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestTheAPIServerIsReachedAsTheFileSaysAndWithoutALimitOfOurOwn(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"gitVersion": "v1.36.0"}`))
	}))
	defer server.Close()
	config, err := Config(write(t, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: here}}],
		clusters: [{name: here, cluster: {server: "`+server.URL+`"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if version, err := clients.Discovery().ServerVersion(); err != nil || version.GitVersion != "v1.36.0" {
		t.Errorf("reached %v, %v", version, err)
	}
	if limit := clients.CoreV1().RESTClient().GetRateLimiter(); limit != nil {
		t.Errorf("there is a limit of %v requests a second", limit.QPS())
	}
}

func TestAnAPIServerThatCannotBeFoundIsAnErrorThatSaysWhatToDo(t *testing.T) {
	_, err := Config("/no/such/file")
	if err == nil || !strings.HasPrefix(err.Error(), "find the API server: ") ||
		!strings.HasSuffix(err.Error(), "/no/such/file: no such file or directory; run in a pod, or say --kubeconfig") {
		t.Errorf("got %v", err)
	}
}

func TestThePodSaysItsNamespace(t *testing.T) {
	for _, tt := range []struct{ name, file, want string }{
		{"in a pod", write(t, "purelb-system\n"), "purelb-system"},
		{"outside of a pod", "/no/such/file", ""},
	} {
		if got := namespaceIn(tt.file); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestDeadConnectionsAreNoticedSoonUnlessTheEnvironmentSaysOtherwise(t *testing.T) {
	const idle, ping = "HTTP2_READ_IDLE_TIMEOUT_SECONDS", "HTTP2_PING_TIMEOUT_SECONDS"
	t.Setenv(idle, "")
	t.Setenv(ping, "7")
	NoticeDeadConnections()
	if got := os.Getenv(idle) + " " + os.Getenv(ping); got != "10 7" {
		t.Errorf("a connection may be idle and unanswered for %s s, want 10 7", got)
	}
}
