package chart

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"purelb.io/purelb/internal/allocate"
	"purelb.io/purelb/internal/bgp/configstatus"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/apitest"
)

// With fewer rights, the allocator would fail to write an address, an event or a status. The scenes of
// security.txt show that it does not have more. TestTokenOfANodeCannotHarmOthers has the requests of
// agents and speakers.
func TestTheRightsOfTheAllocatorAreSufficient(t *testing.T) {
	server := apitest.Start(t)
	install(t, server)
	if out, err := server.Kubectl("", "apply", "-f", "testdata/rights.yaml"); err != nil {
		t.Fatal(out)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended, log := make(chan error, 1), slog.New(slog.NewJSONHandler(t.Output(), nil))
	go func() {
		ended <- allocate.Run(ctx, as("allocator", server.Config), allocate.Options{
			Namespace: "purelb-system", Rules: service.Rules{ByDefault: true}, LeaderElect: true, Identity: "test", GossipSecret: "purelb-gossip", Log: log,
			Loop:    configstatus.Loop("purelb-system", log),
			Metrics: prometheus.NewRegistry(),
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	shows := func(want, args string) {
		t.Helper()
		eventually(t, want, func() string {
			out, _ := server.Kubectl("", strings.Split("get "+args, " ")...)
			return out
		})
	}
	const ready = "configs.bgp.purelb.io default -n purelb-system -o jsonpath={.status.conditions[?(@.type=='Ready')]['status','message']}"
	shows("False spec.neighbors[0].config.authPasswordSecretRef: there is no right to read the secret purelb-system/bgp: add", ready)
	if _, _, err := helm(t, "upgrade", "purelb", ".", "--namespace", "purelb-system", "--set", "gobgp.passwordSecrets={bgp}", "--kubeconfig", server.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	shows("True", ready)
	shows("Cluster/192.168.1.200", "service near -o jsonpath={.spec.externalTrafficPolicy}/{.status.loadBalancer.ingress[*].ip}")
	shows("192.168.2.200", "service public -n kube-public -o jsonpath={.status.loadBalancer.ingress[*].ip}")
	shows("True True", "sg -n purelb-system -o jsonpath={.items[*].status.conditions[?(@.type=='Accepted')].status}")
	shows("True", "lbna -n purelb-system -o jsonpath={.items[*].status.conditions[?(@.type=='Accepted')].status}")
	shows("purelb-allocator", "leases -n purelb-system -o jsonpath={.items[*].metadata.name}")
	shows("purelb-gossip", "secrets -n purelb-system -o jsonpath={.items[*].metadata.name}")
	shows("IPAllocated", "events -o jsonpath={.items[*].reason}")
	if out, err := server.Kubectl("", "patch", "service", "near", "-p", `{"spec": {"type": "ClusterIP"}}`); err != nil {
		t.Fatal(out)
	}
	eventually(t, "gone:", func() string {
		out, _ := server.Kubectl("", "get", "service", "near", "-o", `jsonpath=gone:{.metadata.annotations.purelb\.io/allocated-by}`)
		return strings.TrimSuffix(out, "PureLB")
	})
	if out, err := server.Kubectl("", "delete", "configs.bgp.purelb.io", "default", "-n", "purelb-system", "--timeout=60s"); err != nil {
		t.Error(out)
	}
}

// as returns a copy of config with the rights of a service account, by a token of a pod on node-1.
func as(account string, config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:purelb-system:" + account,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:purelb-system", "system:authenticated"},
		Extra:    map[string][]string{"authentication.kubernetes.io/node-name": {"node-1"}},
	}
	return config
}

// eventually waits until the result of said contains want.
func eventually(t *testing.T, want string, said func() string) {
	t.Helper()
	var last string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if last = said(); strings.Contains(last, want) {
			return
		}
	}
	t.Fatalf("timeout: want %q, got %q", want, last)
}
