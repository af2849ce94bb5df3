package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"

	"purelb.io/purelb/internal/bgp/speaker"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/nodes/shutdown"
	"purelb.io/purelb/internal/process"
)

// flags are the values from the command line and the environment.
type flags struct {
	speaker.Setup
	kubeconfig string
	// kubelet is the address of the kubelet's health endpoint, or "".
	kubelet string
	level   slog.Level
	// ignored are the given flags that have no effect.
	ignored []string
}

// meaningless are flags for a BGP server in another process. They are accepted, so that old
// command lines still work. The value says whether the flag is boolean.
var meaningless = map[string]bool{
	"gobgp-endpoint": false, "metrics-poll-interval": false, "leader-elect": true,
	"zap-devel": true, "zap-encoder": false, "zap-log-level": false, "zap-stacktrace-level": false, "zap-time-encoding": false,
}

// parse reads the command line. The environment gives values for flags that are not set.
func parse(args []string, env func(string) string, stderr io.Writer) (flags, error) {
	var f flags
	var others string
	set := flag.NewFlagSet("k8gobgp", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&f.Node, "node-name", env("NODE_NAME"), "the `name` of this node in Kubernetes (NODE_NAME)")
	set.StringVar(&f.Namespace, "namespace", env("POD_NAMESPACE"), "the `namespace` that PureLB is installed in, and this pod is in (POD_NAMESPACE)")
	set.StringVar(&f.Pod, "pod-name", env("POD_NAME"), "the `name` of this pod, by which the speaker finds out why it ends (POD_NAME); default: it does not find out, and routers keep its routes if they can")
	set.StringVar(&f.PodUID, "pod-uid", env("POD_UID"), "the `UID` of this pod (POD_UID)")
	set.StringVar(&others, "config-namespaces", env("PURELB_CONFIG_NAMESPACES"), "further `namespaces` whose ServiceGroups and LBNodeAgents count, separated by commas, * for all (PURELB_CONFIG_NAMESPACES); default: none")
	set.StringVar(&f.Metrics, "metrics-bind-address", ":7473", "the `address` to serve metrics on, 0 for none")
	set.StringVar(&f.Health, "health-probe-bind-address", ":7474", "the `address` to serve probes on, 0 for none")
	set.BoolVar(&f.PerNeighbor, "enable-per-neighbor-metrics", false, "export metrics for each neighbor")
	set.IntVar(&f.MostNeighbors, "max-neighbors-metrics", 200, "the largest `number` of neighbors that have their own metrics")
	set.StringVar(&f.StateDir, "state-dir", cmp.Or(env("K8GOBGP_STATE_DIR"), "/var/run/gobgp"), "the `folder` that the last configuration is kept in, for when the API server is away at a start (K8GOBGP_STATE_DIR); \"none\": it is not kept")
	set.StringVar(&f.kubeconfig, "kubeconfig", env("KUBECONFIG"), "the kubeconfig `file` for the API server (KUBECONFIG); default: the service account of the pod")
	set.StringVar(&f.kubelet, "kubelet-health", cmp.Or(env("PURELB_KUBELET_HEALTH"), shutdown.DefaultKubelet), "the `address` on this node where the kubelet says that it is healthy, by which the speaker finds out whether the machine goes down (PURELB_KUBELET_HEALTH); \"none\": it is not asked")
	level := cmp.Or(env("K8GOBGP_LOG_LEVEL"), "info")
	set.StringVar(&level, "log-level", level, "info or debug (K8GOBGP_LOG_LEVEL)")
	for name, boolean := range meaningless {
		ignore := func(string) error {
			f.ignored = append(f.ignored, name)
			return nil
		}
		if boolean {
			set.BoolFunc(name, "is accepted and ignored", ignore)
		} else {
			set.Func(name, "is accepted and ignored", ignore)
		}
	}
	if err := set.Parse(args); err != nil {
		return f, err
	}
	slices.Sort(f.ignored)
	if set.NArg() > 0 {
		return f, fmt.Errorf("%q is not a flag; see --help", set.Arg(0))
	}
	if f.StateDir == "none" {
		f.StateDir = ""
	}
	return f, f.complete(level, others)
}

// complete converts the remaining values, and returns an error for wrong values.
func (f *flags) complete(level, others string) error {
	for name, value := range map[string]string{"metrics-bind-address": f.Metrics, "health-probe-bind-address": f.Health} {
		if value != "0" && !isAddress(value) {
			return fmt.Errorf("--%s %q is not an address such as :7473", name, value)
		}
	}
	switch {
	case f.Node == "":
		return errors.New("the name of this node is not known; set --node-name or NODE_NAME")
	case f.Namespace == "":
		return errors.New("the namespace that PureLB is installed in is not known; set --namespace or POD_NAMESPACE")
	case f.MostNeighbors < 0:
		return fmt.Errorf("--max-neighbors-metrics %d is negative", f.MostNeighbors)
	}
	var err error
	if f.kubelet, err = shutdown.Kubelet(f.kubelet); err != nil {
		return fmt.Errorf("--kubelet-health: %w", err)
	}
	if f.ConfigNamespaces, err = config.Namespaces(others); err != nil {
		return fmt.Errorf("--config-namespaces: %w", err)
	}
	f.level, err = process.Level(level)
	return err
}

func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}
