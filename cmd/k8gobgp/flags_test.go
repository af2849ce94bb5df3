package main

import (
	"io"
	"log/slog"
	"strings"
	"testing"

	"purelb.io/purelb/internal/bgp/speaker"
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

var pod = []string{"NODE_NAME=node-1", "POD_NAMESPACE=purelb-system"}

func TestTheEnvironmentOfThePodIsEnough(t *testing.T) {
	f, err := parse(nil, environment(append(pod, "PURELB_CONFIG_NAMESPACES=team-b, team-a", "POD_NAME=lbnodeagent-x", "POD_UID=uid-1")...), io.Discard)
	expect.NoError(t, err)
	want := flags{
		Setup: speaker.Setup{
			Node: "node-1", Namespace: "purelb-system", Pod: "lbnodeagent-x", PodUID: "uid-1", ConfigNamespaces: []string{"team-a", "team-b"},
			Metrics: ":7473", Health: ":7474", MostNeighbors: 200, StateDir: "/var/run/gobgp",
		},
		kubelet: "127.0.0.1:10248", level: slog.LevelInfo,
	}
	expect.Equal(t, "flags", f, want)
}

func TestFlagsOfTheOldProgramAreAcceptedAndNamed(t *testing.T) {
	f, err := parse([]string{"--gobgp-endpoint=localhost:50051", "--zap-devel", "--pod-name=lbnodeagent-x", "--metrics-poll-interval", "15s", "--metrics-bind-address=0",
		"--enable-per-neighbor-metrics", "--max-neighbors-metrics=3", "--state-dir=none", "--log-level=debug"}, environment(append(pod, "PURELB_KUBELET_HEALTH=none")...), io.Discard)
	expect.NoError(t, err)
	want := flags{
		Setup: speaker.Setup{
			Node: "node-1", Namespace: "purelb-system", Pod: "lbnodeagent-x", Metrics: "0", Health: ":7474", PerNeighbor: true, MostNeighbors: 3,
		},
		level:   slog.LevelDebug,
		ignored: []string{"gobgp-endpoint", "metrics-poll-interval", "zap-devel"},
	}
	expect.Equal(t, "flags", f, want)
}

func TestMistakesAreNamed(t *testing.T) {
	for _, tt := range []struct {
		args, env []string
		want      string
	}{
		{nil, pod[1:], "set --node-name or NODE_NAME"},
		{nil, pod[:1], "set --namespace or POD_NAMESPACE"},
		{[]string{"--metrics-bind-address=7473"}, pod, `--metrics-bind-address "7473" is not an address`},
		{[]string{"--health-probe-bind-address=:99999"}, pod, `--health-probe-bind-address ":99999" is not an address`},
		{[]string{"--config-namespaces=Team"}, pod, `--config-namespaces: "Team" is not a namespace`},
		{[]string{"--kubelet-health=:10248"}, pod, `--kubelet-health: ":10248" is not an address such as 127.0.0.1:10248, and not none`},
		{[]string{"--max-neighbors-metrics=-1"}, pod, "--max-neighbors-metrics -1 is negative"},
		{[]string{"--log-level=loud"}, pod, `--log-level "loud" is not known`},
		{[]string{"run"}, pod, `"run" is not a flag`},
	} {
		_, err := parse(tt.args, environment(tt.env...), io.Discard)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v %v: %v, want %q", tt.args, tt.env, err, tt.want)
		}
	}
}
