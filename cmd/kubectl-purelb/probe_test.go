package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"purelb.io/purelb/internal/announce/probe"
)

// probedCluster is an API server with the agents of n1, n2 and n3. forbidden is the path that
// the user has no right to, and answers are what the agents say.
func probedCluster(t *testing.T, forbidden string, answers map[string]probe.Answer) (kubeconfig string) {
	t.Helper()
	const home = "/api/v1/namespaces/purelb-system"
	pod := func(node string) string {
		return fmt.Sprintf(`{"metadata": {"name": "agent-%[1]s", "labels": {"app": "purelb"}}, "spec": {"nodeName": %[1]q, "containers": [
			{"name": "lbnodeagent", "ports": [{"name": "gossip", "containerPort": 7934}, {"name": "monitoring", "containerPort": 7472}]}]},
			"status": {"phase": "Running"}}`, node)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body, _ := io.ReadAll(r.Body)
		node, isProxy := strings.CutPrefix(r.URL.Path, home+"/pods/http:agent-")
		node, _, _ = strings.Cut(node, ":7472/proxy/probe")
		switch {
		case forbidden != "" && strings.HasPrefix(r.URL.Path, home+forbidden):
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "no right to %s"}`, forbidden)
		case r.URL.Path == home+"/pods":
			fmt.Fprintf(w, `{"kind": "PodList", "apiVersion": "v1", "items": [%s, %s, %s]}`, pod("n1"), pod("n2"), pod("n3"))
		case r.URL.Path == home+"/serviceaccounts/purelb-prober/token":
			if !bytes.Contains(body, []byte(`"audiences":["probe.purelb.io/192.0.2.9"]`)) {
				t.Errorf("a token is asked for by %s", body)
			}
			fmt.Fprint(w, `{"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "status": {"token": "good"}}`)
		case isProxy && r.Header.Get(probe.Header) == "good" && string(body) == `{"address":"192.0.2.9"}`:
			a, has := answers[node]
			if !has {
				http.Error(w, "other probes run on this node; try again in a few seconds", http.StatusTooManyRequests)
				return
			}
			_ = json.NewEncoder(w).Encode(a)
		case r.URL.Path == pathAllLeases || r.URL.Path == pathAllPods:
			http.Error(w, "forbidden", http.StatusForbidden)
		default:
			t.Errorf("%s %s with %s", r.Method, r.URL, body)
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: %q}}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// The answers of all agents are joined.
func TestScenesOfProbes(t *testing.T) {
	scenes(t, "probes", func(s stage) func(*testing.T, string) string {
		return func(t *testing.T, command string) string {
			config := probedCluster(t, s.forbidden, s.probes)
			var out, errs bytes.Buffer
			code := run(t.Context(), append(strings.Fields(command), "--kubeconfig", config), strings.NewReader(""), &out, &errs)
			return shown(out.String(), errs.String(), code)
		}
	})
}

// A check asks the holder and another node for one address of each segment.
func TestCheckFindsANetworkThatDropsAnswers(t *testing.T) {
	const tokens = "/api/v1/namespaces/purelb-system/serviceaccounts/purelb-prober/token"
	says := func(f *fakeServer, node string, a probe.Answer) {
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		f.texts[strings.TrimSuffix(agentPath(node), "/state")+"/probe"] = string(text)
	}
	holds, hears := probe.Answer{Here: true, Result: probe.Silent}, probe.Answer{Result: probe.Answered, Machines: []probe.Machine{{MAC: "02:00:00:00:00:11", Node: "n1"}}}
	for _, tt := range []struct {
		name  string
		other probe.Answer
		fault func(*fakeServer)
		want  string
	}{
		{"as it should be", hears, nil, "√ the holder of each address answers for it, and no other machine does"},
		{"the network drops the answers", probe.Answer{Result: probe.Silent}, nil, "× 192.168.10.200 is on node n1, but node n2 in the same network cannot hear it: the network drops its answers; look for port security, and for filters against MAC or IP spoofing, on the switch or hypervisor"},
		{"a node cannot say", probe.Answer{Result: probe.Unknown, Why: "interface eth0 is down"}, nil, "? whether nodes hear the answers for addresses is unknown: node n2: interface eth0 is down"},
		{"no right", hears, func(f *fakeServer) { f.faults[tokens] = 403 }, "? whether nodes hear the answers for addresses is unknown: make a token for the agents: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFakeServer(t)
			f.withAgents(t)
			for _, o := range f.objects[pathLeases] {
				annotations, _ := o["metadata"].(map[string]any)["annotations"].(map[string]any)
				delete(annotations, "purelb.io/claimed-addresses")
			}
			f.texts[tokens] = `{"status": {"token": "good"}}`
			says(f, "n1", holds)
			says(f, "n2", tt.other)
			if tt.fault != nil {
				tt.fault(f)
			}
			if out, _, _ := f.ask(t, "check"); !strings.Contains(out, tt.want) {
				t.Errorf("it does not say %q:\n%s", tt.want, out)
			}
			for _, path := range f.asked {
				if strings.Contains(path, "/probe") && strings.Contains(path, "lbnodeagent-3") {
					t.Errorf("asked %s", path)
				}
			}
		})
	}
}
