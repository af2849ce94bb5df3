package chart

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"purelb.io/purelb/internal/allocate"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/announce/agent"
	"purelb.io/purelb/internal/bgp/configstatus"
	"purelb.io/purelb/internal/bgp/speaker"
	"purelb.io/purelb/internal/nodes/lease"
	"purelb.io/purelb/internal/nodes/membership"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/apitest"
)

// cluster has a node and three Services that make the programs use every right: the traffic policy
// of the first must be reset, the second follows its endpoints, and the group of the third depends
// on its namespace. Its BGPConfiguration has a password, and the finalizer of an older version.
const cluster = `
apiVersion: v1
kind: Node
metadata: {name: node-1}
---
apiVersion: purelb.io/v2
kind: ServiceGroup
metadata: {name: virtual, namespace: purelb-system}
spec: {remote: {v4pool: {subnet: 10.255.0.0/24, pool: 10.255.0.1-10.255.0.9, aggregation: /32}}}
---
apiVersion: purelb.io/v2
kind: ServiceGroup
metadata: {name: default, namespace: purelb-system}
spec: {local: {v4pool: {subnet: 192.168.1.0/24, pool: 192.168.1.200-192.168.1.230}}}
---
apiVersion: purelb.io/v2
kind: ServiceGroup
metadata: {name: selected, namespace: purelb-system}
spec:
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-public}}
  local: {v4pool: {subnet: 192.168.2.0/24, pool: 192.168.2.200-192.168.2.230}}
---
apiVersion: v1
kind: Service
metadata: {name: public, namespace: kube-public}
spec: {type: LoadBalancer, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: near, namespace: default}
spec: {type: LoadBalancer, externalTrafficPolicy: Local, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: far, namespace: default, annotations: {purelb.io/service-group: virtual}}
spec: {type: LoadBalancer, externalTrafficPolicy: Local, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: far-1, namespace: default, labels: {kubernetes.io/service-name: far}}
addressType: IPv4
endpoints: [{addresses: [10.244.0.1], nodeName: node-1, conditions: {ready: true}}]
ports: [{port: 80}]
---
apiVersion: v1
kind: Secret
metadata: {name: bgp, namespace: purelb-system}
stringData: {password: abc}
---
apiVersion: bgp.purelb.io/v1
kind: BGPConfiguration
metadata: {name: default, namespace: purelb-system, finalizers: [bgp.purelb.io/finalizer]}
spec:
  global: {asn: 65001}
  neighbors:
  - config: {neighborAddress: 192.0.2.1, peerAsn: 65000, authPasswordSecretRef: {name: bgp, key: password}}
`

// With fewer rights, the programs would fail to write an address, an event or a status. The tables
// of other tests prove that they do not have more rights.
func TestRightsAreSufficient(t *testing.T) {
	server := apitest.Start(t)
	install(t, server)
	if out, err := server.Kubectl(cluster, "apply", "-f", "-"); err != nil {
		t.Fatal(out)
	}
	node := &kernel{}
	start(t, "allocator", func(ctx context.Context, log *slog.Logger) error {
		return allocate.Run(ctx, as("allocator", server.Config), allocate.Options{
			Namespace: "purelb-system", Rules: service.Rules{ByDefault: true}, LeaderElect: true, Identity: "test", GossipSecret: "purelb-gossip", Log: log,
			Loop:    configstatus.Loop("purelb-system", log),
			Metrics: prometheus.NewRegistry(),
		})
	})
	start(t, "lbnodeagent", func(ctx context.Context, log *slog.Logger) error {
		return agent.Run(ctx, as("lbnodeagent", server.Config), node, agent.Setup{
			Node: "node-1", Namespace: "purelb-system", Address: "127.0.0.1:0", Log: log,
			Gossip: membership.Gossiping{Bind: netip.MustParseAddrPort("127.0.0.1:7934"), Secret: "purelb-gossip"},
			Lease:  lease.Options{Node: "node-1", Instance: "test", Duration: 10 * time.Second, RenewDeadline: 7 * time.Second, RetryPeriod: 2 * time.Second},
		})
	})
	start(t, "k8gobgp", func(ctx context.Context, log *slog.Logger) error {
		return speaker.Run(ctx, as("lbnodeagent", server.Config), bgpServer{}, bgpKernel{}, noBFD{}, speaker.Setup{
			Node: "node-1", Namespace: "purelb-system", Metrics: "0", Health: "0", Log: log,
		})
	})
	eventually(t, "there is no right to read the secret purelb-system/bgp: add bgp to gobgp.passwordSecrets", func() string {
		out, _ := server.Kubectl("", "get", "bgpnodestatus", "node-1", "-o", "jsonpath={.status.conditions[?(@.type=='Configured')].message}")
		return out
	})
	eventually(t, "False spec.neighbors[0].config.authPasswordSecretRef: there is no right to read the secret purelb-system/bgp: add", func() string {
		out, _ := server.Kubectl("", "get", "configs.bgp.purelb.io", "default", "-n", "purelb-system",
			"-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status} {.status.conditions[?(@.type=='Ready')].message}")
		return out
	})
	if _, _, err := helm(t, "upgrade", "purelb", ".", "--namespace", "purelb-system", "--set", "gobgp.passwordSecrets={bgp}", "--kubeconfig", server.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ want, args string }{
		{"Cluster/192.168.1.200", "get service near -o jsonpath={.spec.externalTrafficPolicy}/{.status.loadBalancer.ingress[*].ip}"},
		{"node-1,eth0,192.168.1.200", `get service near -o jsonpath={.metadata.annotations.purelb\.io/announcing-IPv4}`},
		{"192.168.2.200", "get service public -n kube-public -o jsonpath={.status.loadBalancer.ingress[*].ip}"},
		{"True True True", "get sg -n purelb-system -o jsonpath={.items[*].status.conditions[?(@.type=='Accepted')].status}"},
		{"True True", "get lbna -n purelb-system -o jsonpath={.items[*].status.conditions[*].status}"},
		{"purelb-allocator purelb-node-node-1", "get leases -n purelb-system -o jsonpath={.items[*].metadata.name}"},
		{"purelb-gossip", "get secrets -n purelb-system -o jsonpath={.items[*].metadata.name}"},
		{"127.0.0.1:7934", `get leases -n purelb-system -o jsonpath={.items[*].metadata.annotations.purelb\.io/gossip}`},
		{"True", "get configs.bgp.purelb.io default -n purelb-system -o jsonpath={.status.conditions[?(@.type=='Ready')].status}"},
		{"True", "get bgpnodestatus node-1 -o jsonpath={.status.conditions[?(@.type=='Configured')].status}"},
		{"RouterIDResolved", "get events -n purelb-system -o jsonpath={.items[*].reason}"},
		{"IPAllocated", "get events -o jsonpath={.items[*].reason}"},
		{"AnnouncingLocal", "get events -o jsonpath={.items[*].reason}"},
		{"AnnouncingNonLocal", "get events -o jsonpath={.items[*].reason}"},
	} {
		eventually(t, tt.want, func() string {
			out, _ := server.Kubectl("", strings.Split(tt.args, " ")...)
			return out
		})
	}
	eventually(t, "10.255.0.1/32 kube-lb0, 192.168.1.200/24 eth0", node.String)
	if out, err := server.Kubectl("", "patch", "service", "far", "-p", `{"spec": {"type": "ClusterIP"}}`); err != nil {
		t.Fatal(out)
	}
	eventually(t, "gone:", func() string {
		out, _ := server.Kubectl("", "get", "service", "far", "-o", `jsonpath=gone:{.metadata.annotations.purelb\.io/allocated-by}`)
		return strings.TrimSuffix(out, "PureLB")
	})
	eventually(t, "192.168.1.200/24 eth0", node.String)
	quietly := `{"spec": {"global": {"nodeStatus": {"enabled": false}}}}`
	if out, err := server.Kubectl("", "patch", "configs.bgp.purelb.io", "default", "-n", "purelb-system", "--type=merge", "-p", quietly); err != nil {
		t.Fatal(out)
	}
	eventually(t, "NotFound", func() string {
		out, _ := server.Kubectl("", "get", "bgpnodestatus", "node-1")
		return out
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

// start runs a program until the test ends.
func start(t *testing.T, name string, run func(context.Context, *slog.Logger) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, slog.New(slog.NewJSONHandler(t.Output(), nil))) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
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

// kernel is a network stack with an interface in 192.168.1.0/24. It accepts every address.
type kernel struct {
	mu        sync.Mutex
	addresses []announce.Address
}

func (k *kernel) Observe(context.Context) (announce.Node, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	own := announce.Address{Prefix: netip.MustParsePrefix("192.168.1.10/24"), Link: "eth0", Valid: announce.Forever, Preferred: announce.Forever}
	return announce.Node{
		Links:          []announce.Link{{Name: "eth0", Index: 1, Up: true, Carrier: true, Default4: true}, {Name: "kube-lb0", Index: 2, Up: true}},
		Addresses:      append([]announce.Address{own}, k.addresses...),
		MarksSupported: true,
	}, nil
}

func (k *kernel) Addresses(ctx context.Context) ([]announce.Address, error) {
	node, err := k.Observe(ctx)
	return node.Addresses, err
}

func (k *kernel) Changes(context.Context) (<-chan struct{}, error) { return nil, nil }

func (k *kernel) Put(_ context.Context, addresses []announce.Address) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, a := range addresses {
		k.drop(a)
		a.Mark = announce.Mark
		k.addresses = append(k.addresses, a)
	}
	return nil
}

func (k *kernel) Remove(_ context.Context, addresses []announce.Address) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, a := range addresses {
		k.drop(a)
	}
	return nil
}

func (k *kernel) drop(a announce.Address) {
	k.addresses = slices.DeleteFunc(k.addresses, func(b announce.Address) bool { return a.Prefix == b.Prefix && a.Link == b.Link })
}

func (k *kernel) EnsureDummy(context.Context, string) error { return nil }

func (k *kernel) Guard(context.Context, []netip.Addr) error { return nil }

func (k *kernel) RemoveDummies(context.Context) error { return nil }

func (k *kernel) Claim(context.Context, string, netip.Addr) error { return nil }

func (k *kernel) Probe(context.Context, string, []netip.Addr, announce.Probing) (announce.Answers, error) {
	return nil, nil
}

func (k *kernel) Listen(context.Context, func() map[netip.Addr]string) (<-chan announce.Heard, error) {
	return nil, nil
}

// String lists the service addresses, sorted.
func (k *kernel) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var list []string
	for _, a := range k.addresses {
		list = append(list, fmt.Sprintf("%s %s", a.Prefix, a.Link))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
