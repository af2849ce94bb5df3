package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"time"

	"purelb.io/purelb/internal/announce/agent"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/kube"
	"purelb.io/purelb/internal/nodes/shutdown"
	"purelb.io/purelb/internal/process"
)

// flags are the values from the command line and the environment: those of the agent, and those that
// main needs to set it up.
type flags struct {
	agent.Setup
	kubeconfig string
	// kubelet is the address of the kubelet's health endpoint, or "".
	kubelet string
	level   slog.Level
}

// parse reads the command line. The environment gives values for flags that are not set.
func parse(args []string, env func(string) string, stderr io.Writer) (flags, error) {
	var f flags
	var others, host, stateDir string
	var port int
	most := cmp.Or(env("PURELB_MAX_ADDRESS_METRICS"), "1000")
	level := cmp.Or(env("PURELB_LOG_LEVEL"), "info")
	set := flag.NewFlagSet("lbnodeagent", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&f.Namespace, "namespace", env("PURELB_NAMESPACE"), "the `namespace` that PureLB is installed in (PURELB_NAMESPACE); default: that of this pod")
	set.StringVar(&f.Node, "node-name", env("PURELB_NODE_NAME"), "the `name` of this node in Kubernetes (PURELB_NODE_NAME)")
	set.StringVar(&f.Pod, "pod-name", env("PURELB_POD_NAME"), "the `name` of this pod, by which the agent finds out whether it comes back when it ends (PURELB_POD_NAME); default: it does not find out, and leaves its addresses in place")
	set.StringVar(&f.Lease.Instance, "pod-uid", env("PURELB_POD_UID"), "the `UID` of this pod (PURELB_POD_UID)")
	set.StringVar(&others, "config-namespaces", env("PURELB_CONFIG_NAMESPACES"), "further `namespaces` whose ServiceGroups and LBNodeAgents count, separated by commas, * for all (PURELB_CONFIG_NAMESPACES); default: none")
	set.StringVar(&host, "host", env("PURELB_HOST"), "the `address` to serve metrics and probes on (PURELB_HOST); default: all")
	set.IntVar(&port, "port", 7472, "the `port` to serve metrics and probes on")
	set.StringVar(&most, "max-address-metrics", most, "the `number` of addresses on this node up to which each address has its own metrics, 0 for none (PURELB_MAX_ADDRESS_METRICS)")
	set.StringVar(&f.kubeconfig, "kubeconfig", env("KUBECONFIG"), "the kubeconfig `file` for the API server (KUBECONFIG); default: the service account of the pod")
	set.StringVar(&f.kubelet, "kubelet-health", cmp.Or(env("PURELB_KUBELET_HEALTH"), shutdown.DefaultKubelet), "the `address` on this node where the kubelet says that it is healthy, by which the agent finds out whether the machine goes down (PURELB_KUBELET_HEALTH); \"none\": it is not asked")
	proxy := cmp.Or(env("PURELB_KUBE_PROXY_HEALTH"), agent.DefaultProxyHealth)
	set.StringVar(&proxy, "kube-proxy-health", proxy, "the `URL` on this node where kube-proxy says that it works; until it does, a node that has started takes no addresses (PURELB_KUBE_PROXY_HEALTH); \"none\": it is not asked")
	gossip, gossipPort := env("PURELB_GOSSIP_ADDRESS"), cmp.Or(env("PURELB_GOSSIP_PORT"), "7934")
	set.StringVar(&gossip, "gossip-address", gossip, "the `address` of this node that the other agents reach (PURELB_GOSSIP_ADDRESS); default: no gossip")
	set.StringVar(&gossipPort, "gossip-port", gossipPort, "the `port` to gossip on, the same on all nodes, 0 for no gossip (PURELB_GOSSIP_PORT)")
	set.StringVar(&f.Gossip.Secret, "gossip-secret", cmp.Or(env("PURELB_GOSSIP_SECRET"), "purelb-gossip"), "the `name` of the Secret with the keys of the gossip (PURELB_GOSSIP_SECRET)")
	set.StringVar(&stateDir, "state-dir", env("PURELB_STATE_DIR"), "the `folder` that the keys of the gossip are kept in, for when the API server is away at a start (PURELB_STATE_DIR); default: they are not kept")
	var wrong error
	for _, d := range []struct {
		to                           *time.Duration
		name, variable, value, usage string
	}{
		{&f.Lease.Duration, "lease-duration", "PURELB_LEASE_DURATION", "10s", "how `long` a node counts as alive after its Lease changed"},
		{&f.Lease.RenewDeadline, "renew-deadline", "PURELB_RENEW_DEADLINE", "7s", "how `long` one attempt to renew the Lease may take"},
		{&f.Gossip.Patience, "gossip-patience", "PURELB_GOSSIP_PATIENCE", "400ms", "how `long`, 400ms to 5s, another node may be silent until this one takes its addresses"},
		{&f.Lease.RetryPeriod, "retry-period", "PURELB_RETRY_PERIOD", "2s", "how `long` to wait after an attempt that failed"},
	} {
		read := func(text string) (err error) {
			if *d.to, err = time.ParseDuration(text); err != nil {
				return fmt.Errorf("--%s %q is not a duration such as 10s", d.name, text)
			}
			return nil
		}
		wrong = errors.Join(wrong, read(cmp.Or(env(d.variable), d.value)))
		set.Func(d.name, fmt.Sprintf("%s (%s); default: %s", d.usage, d.variable, d.value), read)
	}
	set.BoolVar(&f.Probes, "probes", env("PURELB_PROBES") == "true", "whether people with the Role purelb-prober may ask this agent which machine answers for an address (PURELB_PROBES)")
	set.StringVar(&level, "log-level", level, "info or debug (PURELB_LOG_LEVEL)")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if set.NArg() > 0 {
		return f, fmt.Errorf("%q is not a flag; see --help", set.Arg(0))
	}
	var err error
	if f.KubeProxy, err = agent.ParseProxyHealth(proxy, env("KUBERNETES_PORT")); err != nil {
		return f, fmt.Errorf("--kube-proxy-health: %w", err)
	}
	if port < 0 || port > 65535 {
		return f, fmt.Errorf("--port %d is not a port; use 0 to 65535", port)
	}
	f.Address = net.JoinHostPort(host, strconv.Itoa(port))
	if stateDir != "" {
		f.Gossip.Memory = filepath.Join(stateDir, "gossip.json")
	}
	return f, errors.Join(wrong, f.place(gossip, gossipPort), f.count(most), f.complete(level, others))
}

// place parses the address for gossip. Without an address or a port there is no gossip.
func (f *flags) place(address, port string) error {
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return fmt.Errorf("--gossip-port %s is not a port; use 0 to 65535", port)
	}
	if address == "" || number == 0 {
		return nil
	}
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.IsUnspecified() || ip.Zone() != "" {
		return fmt.Errorf("--gossip-address %q is not an address of this node", address)
	}
	f.Gossip.Bind = netip.AddrPortFrom(ip.Unmap(), uint16(number))
	return nil
}

// count parses the number of addresses that have their own metrics.
func (f *flags) count(most string) error {
	n, err := strconv.ParseUint(most, 10, 31)
	if err != nil {
		return fmt.Errorf("--max-address-metrics %q is not a number of addresses; use 0 or more", most)
	}
	f.MaxAddressMetrics = int(n)
	return nil
}

// complete fills in defaults, and returns an error for wrong values.
func (f *flags) complete(level, others string) error {
	f.Namespace, f.Lease.Node = cmp.Or(f.Namespace, kube.Namespace()), f.Node
	switch {
	case f.Namespace == "":
		return errors.New("the namespace that PureLB is installed in is not known; set --namespace or PURELB_NAMESPACE")
	case f.Node == "":
		return errors.New("the name of this node is not known; set --node-name or PURELB_NODE_NAME")
	}
	var err error
	if f.kubelet, err = shutdown.Kubelet(f.kubelet); err != nil {
		return fmt.Errorf("--kubelet-health: %w", err)
	}
	if f.ConfigNamespaces, err = config.Namespaces(others); err != nil {
		return fmt.Errorf("--config-namespaces: %w", err)
	}
	f.level, err = process.Level(level)
	return errors.Join(err, f.Gossip.Validate())
}
