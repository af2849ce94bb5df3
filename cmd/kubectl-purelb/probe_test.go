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

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/probe"
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

func TestProbeJoinsTheAnswersOfAllAgents(t *testing.T) {
	holder := probe.Machine{MAC: "02:00:00:00:00:01", Node: "n1"}
	foreign := probe.Machine{MAC: "02:00:00:00:00:07"}
	control := []probe.Control{{Node: "n1", Answered: true}, {}}
	all := map[string]probe.Answer{
		"n1": {Interface: "eth0", Result: probe.Silent, Here: true, Controls: control},
		"n2": {Interface: "eth0", Result: probe.Answered, Machines: []probe.Machine{holder}, Controls: control},
		"n3": {Interface: "eth0", Result: probe.Answered, Machines: []probe.Machine{holder}, Controls: control},
	}
	contested := map[string]probe.Answer{
		"n1": {Interface: "eth0", Result: probe.Answered, Machines: []probe.Machine{foreign}, Here: true, Controls: control},
		"n2": {Interface: "eth0", Result: probe.Answered, Machines: []probe.Machine{foreign, holder}, Controls: control},
	}
	for _, tt := range []struct {
		name, args, forbidden string
		answers               map[string]probe.Answer
		want                  string
	}{
		{"as it should be", "192.0.2.9", "", all, `192.0.2.9 is answered by node n1 (seen by n2, n3)

NODE   INTERFACE   HAS IT   ANSWER   MAC                 CONTROLS
n1     eth0        yes      none     -                   1 of 2
n2     eth0        no       n1       02:00:00:00:00:01   1 of 2
n3     eth0        no       n1       02:00:00:00:00:01   1 of 2
exit code 0
`},
		{"a foreign machine, and an agent that is busy", "192.0.2.9", "", contested, `192.0.2.9 is answered by another machine, 02:00:00:00:00:07 (seen by n1, n2), and is on node n1 too

NODE   INTERFACE   HAS IT   ANSWER                                                                                    MAC                 CONTROLS
n1     eth0        yes      another machine                                                                           02:00:00:00:00:07   1 of 2
n2     eth0        no       another machine                                                                           02:00:00:00:00:07   1 of 2
n2     eth0        no       n1                                                                                        02:00:00:00:00:01   1 of 2
n3     -           no       unknown: the agent said: other probes run on this node; try again in a few seconds   -                   0 of 0
exit code 1
`},
		{"some nodes", "192.0.2.9 --node n1", "", all, `192.0.2.9 is on node n1; no other machine answers for it, and no other node could ask

NODE   INTERFACE   HAS IT   ANSWER   MAC   CONTROLS
n1     eth0        yes      none     -     1 of 2
exit code 0
`},
		{"a node without an agent", "192.0.2.9 --node n9", "", all, "error: no agent runs on node n9\nexit code 2\n"},
		{"no right to list pods", "192.0.2.9", "/pods", all, "error: list the agents: no right to /pods (the Role purelb-prober of namespace purelb-system has that right)\nexit code 2\n"},
		{"no right to make a token", "192.0.2.9", "/serviceaccounts", all, "error: make a token for the agents: no right to /serviceaccounts (the Role purelb-prober of namespace purelb-system has that right)\nexit code 2\n"},
		{"no right to use the proxy", "192.0.2.9 --node n1", "/pods/http:", all, `who answers for 192.0.2.9 is unknown: node n1: no right to /pods/http: (the Role purelb-prober of namespace purelb-system has that right)

NODE   INTERFACE   HAS IT   ANSWER                                                                                                  MAC   CONTROLS
n1     -           no       unknown: no right to /pods/http: (the Role purelb-prober of namespace purelb-system has that right)   -     0 of 0
exit code 1
`},
		{"no address", "web", "", all, "error: \"web\" is not an IP address; write one such as 192.0.2.10 or 2001:db8::10\nexit code 2\n"},
		{"files", "192.0.2.9 -f testdata/cluster.yaml", "", all, "error: probe asks the agents of a cluster; it cannot use an archive or files\nexit code 2\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config := probedCluster(t, tt.forbidden, tt.answers)
			var out, errs bytes.Buffer
			code := run(t.Context(), append([]string{"--kubeconfig", config, "probe"}, strings.Fields(tt.args)...), strings.NewReader(""), &out, &errs)
			// Only the words count, not how wide the columns are.
			words := func(text string) string {
				var lines []string
				for line := range strings.Lines(text) {
					lines = append(lines, strings.Join(strings.Fields(line), " "))
				}
				return strings.Join(lines, "\n")
			}
			got := fmt.Sprintf("%s%sexit code %d\n", out.String(), errs.String(), code)
			if diff := cmp.Diff(words(tt.want), words(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
