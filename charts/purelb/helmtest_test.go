package chart

import (
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

// TestTheTestReachesTheAddress runs the script of the pod: the API server answers with an
// address at the second request only.
func TestTheTestReachesTheAddress(t *testing.T) {
	for _, tt := range []struct {
		name, status, want string
		healthy            bool
	}{
		{"IPv4", `{"loadBalancer": {"ingress": [{"ip": "127.0.0.1", "ipMode": "VIP"}]}}`, "reached 127.0.0.1", true},
		{"an address that does not answer", `{"loadBalancer": {"ingress": [{"ip": "127.0.0.1"}]}}`, "does not answer there", false},
		{"no address", `{"loadBalancer": {}}`, "got no address", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked := 0
			api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked++; asked == 1 || r.URL.Path != "/api/v1/namespaces/purelb-system/services/purelb-test" || r.Header.Get("Authorization") != "Bearer token" {
					http.Error(w, "later", http.StatusServiceUnavailable)
					return
				}
				fmt.Fprintf(w, "{\"kind\": \"Service\",\n  \"status\": %s}\n", tt.status)
			}))
			defer api.Close()
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !tt.healthy || r.URL.Path != "/healthz" {
					http.Error(w, "no", http.StatusInternalServerError)
				}
			}))
			defer service.Close()
			out, err := runTest(t, api, service)
			if (err == nil) != strings.HasPrefix(tt.want, "reached") || !strings.Contains(out, tt.want) {
				t.Errorf("it says %v:\n%s", err, out)
			}
		})
	}
}

// runTest runs the script of the pod on this machine.
func runTest(t *testing.T, api, service *httptest.Server) (string, error) {
	t.Helper()
	account := t.TempDir()
	for name, text := range map[string][]byte{
		"ca.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw}),
		"token":  []byte("token"),
	} {
		expect.NoError(t, os.WriteFile(filepath.Join(account, name), text, 0o600))
	}
	_, port, err := net.SplitHostPort(service.Listener.Addr().String())
	expect.NoError(t, err)
	var cmd *exec.Cmd
	for _, o := range mustRender(t, "test: {seconds: 3}") {
		if o.GetKind() == "Pod" {
			c := apitest.As[corev1.Pod](t, o).Spec.Containers[0]
			cmd = exec.CommandContext(t.Context(), c.Command[0], append(c.Command[1:], c.Args...)...)
		}
	}
	cmd.Env = append(os.Environ(), "ACCOUNT="+account, "API="+api.URL, "PORT="+port)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// "make manifests" is for kubectl, which would keep the Service of the test and its address, and run
// the Job of the uninstall at once.
func TestTheManifestsHaveNoTest(t *testing.T) {
	recipe, err := exec.Command("make", "--no-print-directory", "--dry-run", "-C", "../..", "manifests").Output()
	expect.NoError(t, err)
	_, args, found := strings.Cut(string(recipe), " helm template purelb charts/purelb ")
	args, _, redirected := strings.Cut(args, " >> ")
	if !found || !redirected {
		t.Fatalf("the recipe renders no chart:\n%s", recipe)
	}
	out, _, err := helm(t, append([]string{"template", "purelb", "."}, strings.Fields(args)...)...)
	expect.NoError(t, err)
	if !strings.Contains(out, "kind: DaemonSet") || strings.Contains(out, "helm.sh/hook") {
		t.Errorf("the manifests have objects of the test, or no agents:\n%s", out)
	}
}
