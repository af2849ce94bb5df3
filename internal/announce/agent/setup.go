package agent

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"purelb.io/purelb/internal/announce/probe"
	"purelb.io/purelb/internal/kube"
	"purelb.io/purelb/internal/kube/callers"
	"purelb.io/purelb/internal/kube/events"
	"purelb.io/purelb/internal/nodes/lease"
	"purelb.io/purelb/internal/nodes/membership"
	"purelb.io/purelb/internal/nodes/shutdown"
	"purelb.io/purelb/internal/process"
)

// eventSource is the reporting component of events.
const eventSource = "purelb-lbnodeagent"

// Setup holds the options of the node agent's program.
type Setup struct {
	// Node is the name of this node. Namespace is the install namespace of PureLB.
	Node, Namespace string
	// ConfigNamespaces are further namespaces whose ServiceGroups and LBNodeAgents the agent
	// uses. config.Everywhere means all namespaces.
	ConfigNamespaces []string
	// Pod is the name of this agent's pod. The agent needs it to find out what its end means.
	// Without it, addresses stay. The pod's UID is the Instance of Lease.
	Pod string
	// Machine notices that the machine goes down. With nil the agent does not notice it.
	Machine *shutdown.Machine
	// KubeProxy says how the agent asks kube-proxy. With the zero value it does not ask.
	KubeProxy ProxyHealth
	// Address is the "host:port" of the metrics and the probes.
	Address string
	// MaxAddressMetrics limits the series of addresses: up to this number of addresses on this
	// node, each address has its own series.
	MaxAddressMetrics int
	// Lease says how the agent keeps this node's Lease. Run sets its Client, Log, Renewed and
	// Gossip.
	Lease lease.Options
	// Gossip says how the agent gossips with the other agents.
	Gossip membership.Gossiping
	// Probes says that people may ask for probes. The agent then needs the right to create
	// TokenReviews.
	Probes bool
	Log    *slog.Logger
}

// Run builds a node agent from kernel and the API server of config. It runs the agent until
// ctx is done or a part of it fails.
func Run(ctx context.Context, config *rest.Config, kernel Kernel, s Setup) error {
	if err := s.Lease.Validate(); err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(protobuf(config))
	if err != nil {
		return err
	}
	caches, err := NewCaches(config, s.Node, s.Namespace, s.ConfigNamespaces...)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics := NewMetrics(registry, s.MaxAddressMetrics)

	s.Lease.Client = clients.CoordinationV1().Leases(s.Namespace)
	answering := make(chan struct{})
	s.Lease.Renewed = metrics.LeaseRenewed(s.Lease.RenewDeadline)
	peers := membership.New(membership.Options{
		Gossiping: s.Gossip, Lease: s.Lease, Secrets: clients.CoreV1().Secrets(s.Namespace), Log: s.Log, Ready: answering,
	})
	registry.MustRegister(peers)
	slots := NewSlots(clients.CoreV1(), metrics, s.Log)

	recorder := events.New(events.To(clients.CoreV1().RESTClient()), corev1.EventSource{Component: eventSource, Host: s.Node}, s.Log)

	end := &shutdown.Reader{
		Core: clients.CoreV1().RESTClient(), Apps: clients.AppsV1().RESTClient(),
		Namespace: s.Namespace, Pod: s.Pod, UID: s.Lease.Instance, Node: s.Node, NodeDeleted: caches.nodeDeleted, Machine: s.Machine, Log: s.Log,
	}
	agent := New(Options{
		Node: s.Node, Namespace: s.Namespace, ConfigNamespaces: s.ConfigNamespaces,
		Kernel: kernel, Cluster: caches, Peers: peers, Annotations: slots,
		Departures: end, KubeProxy: s.KubeProxy.kubeProxy(),
		Events:  recorder,
		Metrics: metrics, Log: s.Log, Callers: s.callers(clients), Gossip: s.Gossip.Bind,
	})
	watches := func(ctx context.Context) error {
		// A watch that starts while the API server is away notices its return late.
		kube.Await(ctx, clients.Discovery(), s.Lease.RetryPeriod, s.Log)
		close(answering)
		// A part that starts after ctx is done ends at once.
		return process.Together(ctx, caches.Run, end.Run)
	}
	others := func(ctx context.Context) error { return process.Together(ctx, watches, peers.Run) }
	server := process.Server{Address: s.Address, Handler: agent.Handler(registry), Services: serviceAddresses(kernel)}
	return process.Outlive(ctx, agent.Run, others, slots.Run, recorder.Run, server.Run)
}

// callers returns the gate for probes, or nil if there are none.
func (s Setup) callers(clients kubernetes.Interface) Callers {
	if !s.Probes {
		return nil
	}
	return callers.New(callers.Options{
		Tokens: clients.AuthenticationV1().TokenReviews(), Account: "system:serviceaccount:" + s.Namespace + ":" + probe.Account, Log: s.Log,
	})
}

// protobuf returns config for the types that support protobuf, which needs half of the bytes.
func protobuf(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config
}
