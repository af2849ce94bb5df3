package main

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/testing/expect"
)

func TestCommandLineOverridesTheEnvironment(t *testing.T) {
	usual := flags{namespace: "purelb-system", port: 7472, healthAddress: ":8081", podCIDRs: true, leaderElect: true,
		sweepEvery: 10 * time.Minute}
	with := func(change func(*flags)) flags {
		f := usual
		change(&f)
		return f
	}
	tests := []struct {
		name string
		args string
		env  map[string]string
		want flags
	}{
		{"the usual", "--namespace purelb-system", nil, usual},
		{"the environment", "", map[string]string{
			"PURELB_NAMESPACE": "purelb", "PURELB_HOST": "10.0.0.1", "KUBECONFIG": "/kubeconfig", "DEFAULT_ANNOUNCER": "PureLB",
			"PURELB_POD_NAME": "allocator-1", "PURELB_GOSSIP_SECRET": "purelb-gossip", "PURELB_BGP": "true", "PURELB_POD_CIDRS": "false", "PURELB_LOG_LEVEL": "debug", "PURELB_IPAM_SWEEP_INTERVAL": "1h",
			"PURELB_READ_ANNOTATIONS": "metallb,kube-vip", "PURELB_CLUSTER_NAME": "production", "PURELB_REPLACES_CLUSTER": "12-ab",
		}, flags{namespace: "purelb", host: "10.0.0.1", port: 7472, healthAddress: ":8081", kubeconfig: "/kubeconfig",
			announcer: "PureLB", leaderElect: true, identity: "allocator-1", gossipSecret: "purelb-gossip", bgp: true,
			others: []string{"metallb", "kube-vip"}, clusterName: "production", replaces: "12-ab", sweepEvery: time.Hour, level: slog.LevelDebug}},
		{"both", "--namespace=purelb-system --log-level=info", map[string]string{"PURELB_NAMESPACE": "purelb", "PURELB_LOG_LEVEL": "debug"}, usual},
		{"no metrics, no probes, no leader election", "--namespace purelb-system --port 0 --health-address 0 --leader-elect=false", nil,
			with(func(f *flags) { f.port, f.healthAddress, f.leaderElect = 0, "0", false })},
		{"further namespaces", "--namespace purelb-system --config-namespaces team-a", map[string]string{"PURELB_CONFIG_NAMESPACES": "*"},
			with(func(f *flags) { f.configNamespaces = []string{"team-a"} })},
		{"all namespaces", "--namespace purelb-system", map[string]string{"PURELB_CONFIG_NAMESPACES": "*"},
			with(func(f *flags) { f.configNamespaces = []string{"*"} })},
		{"ignored pod networks", "--namespace purelb-system --pod-cidrs=false", nil, with(func(f *flags) { f.podCIDRs = false })},
		{"a capital letter", "--namespace purelb-system --log-level DEBUG", nil, with(func(f *flags) { f.level = slog.LevelDebug })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse(strings.Fields(tt.args), func(name string) string { return tt.env[name] }, io.Discard)
			expect.NoError(t, err)
			expect.Equal(t, "flags", got, tt.want)
		})
	}
}

func TestFlagErrorsNameTheCure(t *testing.T) {
	tests := []struct{ args, want string }{
		{"", "the namespace that PureLB is installed in is not known; set --namespace or PURELB_NAMESPACE"},
		{"--namespace x --port 70000", "--port 70000 is not a port; use 0 to 65535"},
		{"--namespace x --port http", `invalid value "http" for flag -port: parse error`},
		{"--namespace x --health-address 8081", `--health-address "8081" is not address:port: address 8081: missing port in address`},
		{"--namespace x --config-namespaces Team", `--config-namespaces: "Team" is not a namespace; write namespaces separated by commas, or * for all`},
		{"--namespace x --read-annotations haproxy", `--read-annotations: "haproxy" is no product whose annotations PureLB can read; use cilium, kube-vip, metallb`},
		{"--namespace x --cluster-name a/b", `--cluster-name "a/b" is not one word without a slash; use one such as production`},
		{"--namespace x --log-level loud", `--log-level "loud" is not known; use info or debug`},
		{"--namespace x --ipam-sweep-interval 5s", `--ipam-sweep-interval "5s" is not a duration from 10s to 24h; use one such as 10m`},
		{"--namespace x --ipam-sweep-interval often", `--ipam-sweep-interval "often" is not a duration from 10s to 24h; use one such as 10m`},
		{"--namespace x --colour", "flag provided but not defined: -colour"},
		{"--namespace x start", `"start" is not a flag; see --help`},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			var args []string
			env := map[string]string{}
			for _, word := range strings.Fields(tt.args) {
				if name, value, ok := strings.Cut(word, "="); ok {
					env[name] = value
				} else {
					args = append(args, word)
				}
			}
			_, err := parse(args, func(name string) string { return env[name] }, io.Discard)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestAMissingKubeconfigIsAnError(t *testing.T) {
	err := run(context.Background(), []string{"--namespace", "x", "--kubeconfig", "/no/such/file"}, func(string) string { return "" }, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "/no/such/file") {
		t.Errorf("got %v", err)
	}
}
