package agent

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"purelb.io/purelb/internal/apiserver"
	"purelb.io/purelb/internal/events"
	"purelb.io/purelb/internal/lease"
	"purelb.io/purelb/internal/membership"
	"purelb.io/purelb/internal/process"
	"purelb.io/purelb/internal/shutdown"
)

// eventSource is who events are from.
const eventSource = "purelb-lbnodeagent"

// Setup is what the program of a node agent is told.
type Setup struct {
	// Node is the name of this node, Namespace the one that PureLB is
	// installed in.
	Node, Namespace string
	// ConfigNamespaces are further namespaces of which ServiceGroups and
	// LBNodeAgents count; config.Everywhere stands for all.
	ConfigNamespaces []string
	// Pod is the name of this agent's pod, by which it finds out what its end
	// means; without it, addresses stay. Its UID is the Instance of Lease.
	Pod string
	// Machine notices whether the machine goes down; nil: that is not noticed.
	Machine *shutdown.Machine
	// Address is where metrics and probes are served, "host:port".
	Address string
	// Lease says how this node's Lease is kept. Its Client, Log, Renewed and
	// Gossip are filled in.
	Lease lease.Options
	// Gossip says how it gossips with the other agents.
	Gossip membership.Gossiping
	Log    *slog.Logger
}

// Run builds a node agent on kernel and the API server of config, and runs it
// until ctx is done or a part of it fails.
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
	metrics := NewMetrics(registry)

	s.Lease.Client = clients.CoordinationV1().Leases(s.Namespace)
	answering := make(chan struct{})
	s.Lease.Renewed = metrics.LeaseRenewed(s.Lease.RenewDeadline)
	peers := membership.New(membership.Options{
		Gossiping: s.Gossip, Lease: s.Lease, Secrets: clients.CoreV1().Secrets(s.Namespace), Log: s.Log, Ready: answering,
	})
	registry.MustRegister(peers)
	slots := NewSlots(clients.CoreV1(), metrics, s.Log)

	told := events.New(events.To(clients.CoreV1().RESTClient()), corev1.EventSource{Component: eventSource, Host: s.Node}, s.Log)

	end := &shutdown.Reader{
		Core: clients.CoreV1().RESTClient(), Apps: clients.AppsV1().RESTClient(),
		Namespace: s.Namespace, Pod: s.Pod, UID: s.Lease.Instance, Node: s.Node, NodeDeleted: caches.nodeDeleted, Machine: s.Machine, Log: s.Log,
	}
	agent := New(Options{
		Node: s.Node, Namespace: s.Namespace, ConfigNamespaces: s.ConfigNamespaces,
		Kernel: kernel, Cluster: caches, Peers: peers, Annotations: slots,
		Departures: end,
		Events:     told,
		Metrics:    metrics, Log: s.Log, State: peers.State(),
	})
	watches := func(ctx context.Context) error {
		// What begins to watch while the API server is away is late to notice its return.
		apiserver.Await(ctx, clients.Discovery(), s.Lease.RetryPeriod, s.Log)
		close(answering)
		// Parts that begin when ctx is done end at once.
		return process.Together(ctx, caches.Run, end.Run)
	}
	others := func(ctx context.Context) error { return process.Together(ctx, watches, peers.Run) }
	server := process.Server{Address: s.Address, Handler: agent.Handler(registry)}
	return process.Outlive(ctx, agent.Run, others, slots.Run, told.Run, server.Run)
}

// protobuf is config for the types that have it, which takes half of the bytes.
func protobuf(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config
}
