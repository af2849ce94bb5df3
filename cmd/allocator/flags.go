package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode"

	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/kube"
	"purelb.io/purelb/internal/process"
	"purelb.io/purelb/internal/service"
)

// defaultAnnouncer is the value of --default-announcer that makes Services without a load
// balancer class ours.
const defaultAnnouncer = "PureLB"

// flags are the values from the command line and the environment.
type flags struct {
	namespace string
	// configNamespaces are more namespaces whose ServiceGroups and LBNodeAgents are used.
	configNamespaces []string
	host             string
	port             int
	healthAddress    string
	kubeconfig       string
	announcer        string
	// others are the products whose annotations of Services count.
	others       []string
	podCIDRs     bool
	leaderElect  bool
	identity     string
	gossipSecret string
	clusterName  string
	// replaces is the UID of a former cluster of that name.
	replaces   string
	sweepEvery time.Duration
	// removeFinalizers says to do only that.
	removeFinalizers bool
	bgp              bool
	level            slog.Level
}

// parse reads the command line. The environment gives values for flags that are not set.
func parse(args []string, env func(string) string, stderr io.Writer) (flags, error) {
	var f flags
	var others, products string
	level := cmp.Or(env("PURELB_LOG_LEVEL"), "info")
	sweepEvery := cmp.Or(env("PURELB_IPAM_SWEEP_INTERVAL"), "10m")
	set := flag.NewFlagSet("allocator", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&f.namespace, "namespace", env("PURELB_NAMESPACE"), "the `namespace` of PureLB (PURELB_NAMESPACE); default: the namespace of this pod")
	set.StringVar(&others, "config-namespaces", env("PURELB_CONFIG_NAMESPACES"), "further `namespaces` whose ServiceGroups and LBNodeAgents count, separated by commas, * for all (PURELB_CONFIG_NAMESPACES); default: none")
	set.StringVar(&f.host, "host", env("PURELB_HOST"), "the `address` to serve metrics on (PURELB_HOST); default: all")
	set.IntVar(&f.port, "port", 7472, "the `port` to serve metrics on, 0 for none")
	set.StringVar(&f.healthAddress, "health-address", ":8081", "the `address:port` to serve /healthz and /readyz on, 0 for none")
	set.StringVar(&f.kubeconfig, "kubeconfig", env("KUBECONFIG"), "the kubeconfig `file` for the API server (KUBECONFIG); default: the service account of the pod")
	set.StringVar(&f.announcer, "default-announcer", env("DEFAULT_ANNOUNCER"), "\"PureLB\" to serve Services without a loadBalancerClass too (DEFAULT_ANNOUNCER)")
	set.StringVar(&products, "read-annotations", env("PURELB_READ_ANNOTATIONS"), "the `products`, of "+strings.Join(service.Products(), ", ")+", whose annotations of Services count where those of PureLB are absent, separated by commas (PURELB_READ_ANNOTATIONS); default: none")
	set.BoolVar(&f.podCIDRs, "pod-cidrs", env("PURELB_POD_CIDRS") != "false", "never assign addresses of spec.podCIDRs of Nodes; set false if the network plugin does not use them (PURELB_POD_CIDRS)")
	set.BoolVar(&f.leaderElect, "leader-elect", true, "elect a leader among the allocators; only the leader works")
	set.StringVar(&f.identity, "identity", env("PURELB_POD_NAME"), "the unique `name` of this allocator in the leader election (PURELB_POD_NAME); default: a random name")
	set.StringVar(&f.gossipSecret, "gossip-secret", env("PURELB_GOSSIP_SECRET"), "the `name` of the Secret with the gossip key, which the allocator makes if it is absent (PURELB_GOSSIP_SECRET); default: no Secret")
	set.StringVar(&f.clusterName, "cluster-name", env("PURELB_CLUSTER_NAME"), "the `name` of this cluster in NetBox and other IPAM systems, one word (PURELB_CLUSTER_NAME); default: the UID of the namespace kube-system")
	set.StringVar(&f.replaces, "replaces-cluster", env("PURELB_REPLACES_CLUSTER"), "the `UID` of the namespace kube-system of the former cluster of this --cluster-name, whose addresses in NetBox this cluster takes over (PURELB_REPLACES_CLUSTER); default: none")
	set.StringVar(&sweepEvery, "ipam-sweep-interval", sweepEvery, "the `time`, 10s to 24h, between two comparisons of NetBox with the cluster (PURELB_IPAM_SWEEP_INTERVAL); long lists are compared less often")
	set.BoolVar(&f.removeFinalizers, "remove-finalizers", false, "only remove PureLB's finalizers from all Services and ServiceGroups, after PureLB was uninstalled")
	set.BoolVar(&f.bgp, "bgp", env("PURELB_BGP") == "true", "keep the status of BGPConfigurations (PURELB_BGP=true)")
	set.StringVar(&level, "log-level", level, "info or debug (PURELB_LOG_LEVEL)")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if set.NArg() > 0 {
		return f, fmt.Errorf("%q is not a flag; see --help", set.Arg(0))
	}
	var err error
	if f.sweepEvery, err = time.ParseDuration(sweepEvery); err != nil || f.sweepEvery < 10*time.Second || f.sweepEvery > 24*time.Hour {
		return f, fmt.Errorf("--ipam-sweep-interval %q is not a duration from 10s to 24h; use one such as 10m", sweepEvery)
	}
	return f, f.complete(level, others, products)
}

// complete fills in defaults, and returns an error for wrong values.
func (f *flags) complete(level, others, products string) error {
	f.namespace = cmp.Or(f.namespace, kube.Namespace())
	switch {
	case f.namespace == "":
		return errors.New("the namespace that PureLB is installed in is not known; set --namespace or PURELB_NAMESPACE")
	case f.port < 0 || f.port > 65535:
		return fmt.Errorf("--port %d is not a port; use 0 to 65535", f.port)
	}
	if f.healthAddress != "0" {
		if _, _, err := net.SplitHostPort(f.healthAddress); err != nil {
			return fmt.Errorf("--health-address %q is not address:port: %w", f.healthAddress, err)
		}
	}
	if strings.ContainsFunc(f.clusterName, func(c rune) bool { return c == '/' || !unicode.IsPrint(c) || c == ' ' }) {
		return fmt.Errorf("--cluster-name %q is not one word without a slash; use one such as production", f.clusterName)
	}
	var err error
	if f.configNamespaces, err = config.Namespaces(others); err != nil {
		return fmt.Errorf("--config-namespaces: %w", err)
	}
	if f.others, err = service.ParseProducts(products); err != nil {
		return fmt.Errorf("--read-annotations: %w", err)
	}
	f.level, err = process.Level(level)
	return err
}

// metricsAddress returns the address for /metrics, or "" for none.
func (f flags) metricsAddress() string {
	if f.port == 0 {
		return ""
	}
	return net.JoinHostPort(f.host, strconv.Itoa(f.port))
}
