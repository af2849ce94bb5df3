package main

import (
	"io"
	"log/slog"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/announce/agent"
	"purelb.io/purelb/internal/nodes/lease"
	"purelb.io/purelb/internal/nodes/membership"
	"purelb.io/purelb/internal/testing/expect"
)

// environment is variables as os.Getenv has them.
func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for _, pair := range pairs {
			if n, value, _ := strings.Cut(pair, "="); n == name {
				return value
			}
		}
		return ""
	}
}

var pod = []string{"PURELB_NAMESPACE=purelb-system", "PURELB_NODE_NAME=node-1", "PURELB_POD_UID=uid-1", "PURELB_GOSSIP_ADDRESS=192.0.2.1"}

func TestTheEnvironmentOfThePodIsEnough(t *testing.T) {
	f, err := parse(nil, environment(pod...), io.Discard)
	expect.NoError(t, err)
	want := flags{
		Setup: agent.Setup{
			Namespace: "purelb-system", Node: "node-1", Address: ":7472", MaxAddressMetrics: 1000,
			KubeProxy: agent.ProxyHealth{URL: "http://127.0.0.1:10256/livez"},
			Lease:     lease.Options{Node: "node-1", Instance: "uid-1", Duration: 10 * time.Second, RenewDeadline: 7 * time.Second, RetryPeriod: 2 * time.Second},
			Gossip:    membership.Gossiping{Bind: netip.MustParseAddrPort("192.0.2.1:7934"), Secret: "purelb-gossip", Patience: 400 * time.Millisecond},
		},
		kubelet: "127.0.0.1:10248", level: slog.LevelInfo,
	}
	if !reflect.DeepEqual(f, want) {
		t.Errorf("got %+v, want %+v", f, want)
	}
}

func TestCommandLineOverridesTheEnvironment(t *testing.T) {
	env := environment(append(pod, "PURELB_LEASE_DURATION=20s", "PURELB_RENEW_DEADLINE=9s", "PURELB_RETRY_PERIOD=1s",
		"PURELB_GOSSIP_PORT=1", "PURELB_GOSSIP_PATIENCE=5s", "PURELB_GOSSIP_SECRET=env", "PURELB_HOST=192.0.2.1", "PURELB_LOG_LEVEL=debug", "KUBECONFIG=/env", "PURELB_CONFIG_NAMESPACES=team-a", "PURELB_KUBELET_HEALTH=none", "PURELB_KUBE_PROXY_HEALTH=none", "KUBERNETES_PORT=tcp://10.96.0.1:443", "PURELB_STATE_DIR=/env", "PURELB_MAX_ADDRESS_METRICS=7")...)
	f, err := parse([]string{"--node-name=node-2", "--lease-duration=30s", "--host=2001:db8::1", "--port=7000", "--max-address-metrics=0", "--kubeconfig=/flag",
		"--gossip-address=2001:db8::1", "--gossip-port=7000", "--gossip-secret=flag", "--gossip-patience=2s", "--kubelet-health=[::1]:10248", "--kube-proxy-health=http://127.0.0.1:9879/healthz", "--config-namespaces=*", "--state-dir=/flag"}, env, io.Discard)
	expect.NoError(t, err)
	want := flags{
		Setup: agent.Setup{
			Namespace: "purelb-system", Node: "node-2", Address: "[2001:db8::1]:7000", ConfigNamespaces: []string{"*"},
			KubeProxy: agent.ProxyHealth{URL: "http://127.0.0.1:9879/healthz", Service: "10.96.0.1:443"},
			Lease:     lease.Options{Node: "node-2", Instance: "uid-1", Duration: 30 * time.Second, RenewDeadline: 9 * time.Second, RetryPeriod: time.Second},
			Gossip:    membership.Gossiping{Bind: netip.MustParseAddrPort("[2001:db8::1]:7000"), Secret: "flag", Patience: 2 * time.Second, Memory: "/flag/gossip.json"},
		},
		kubeconfig: "/flag", kubelet: "[::1]:10248", level: slog.LevelDebug,
	}
	if !reflect.DeepEqual(f, want) {
		t.Errorf("got %+v, want %+v", f, want)
	}
}

func TestWithoutAnAddressOrAPortThereIsNoGossip(t *testing.T) {
	for _, args := range [][]string{{"--gossip-port=0"}, {"--gossip-address="}} {
		f, err := parse(args, environment(pod...), io.Discard)
		if err != nil || f.Gossip.Bind.IsValid() {
			t.Errorf("%v: gossips at %s, %v", args, f.Gossip.Bind, err)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for _, tt := range []struct {
		args, env []string
		want      string
	}{
		{nil, nil, "set --namespace or PURELB_NAMESPACE"},
		{[]string{"--config-namespaces=Team"}, pod, `--config-namespaces: "Team" is not a namespace`},
		{nil, pod[:1], "set --node-name or PURELB_NODE_NAME"},
		{[]string{"--port=99999"}, pod, "--port 99999 is not a port"},
		{[]string{"--max-address-metrics=-1"}, pod, `--max-address-metrics "-1" is not a number of addresses`},
		{[]string{"--lease-duration=soon"}, pod, `--lease-duration "soon" is not a duration`},
		{nil, append(pod[:3:3], "PURELB_RETRY_PERIOD=2"), `--retry-period "2" is not a duration`},
		{[]string{"--log-level=loud"}, pod, `--log-level "loud" is not known`},
		{[]string{"--kubelet-health=10248"}, pod, `--kubelet-health: "10248" is not an address such as 127.0.0.1:10248, and not none`},
		{[]string{"--kube-proxy-health=127.0.0.1:10256"}, pod, `--kube-proxy-health: "127.0.0.1:10256" is not a URL such as http://127.0.0.1:10256/livez, and not none`},
		{[]string{"--gossip-port=-1"}, pod, "--gossip-port -1 is not a port"},
		{[]string{"--gossip-address=node-1"}, pod, `--gossip-address "node-1" is not an address`},
		{[]string{"--gossip-patience=1m"}, pod, "the patience of gossip is 1m0s; say 400ms to 5s"},
		{[]string{"run"}, pod, `"run" is not a flag`},
	} {
		_, err := parse(tt.args, environment(tt.env...), io.Discard)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v %v: %v, want %q", tt.args, tt.env, err, tt.want)
		}
	}
}
