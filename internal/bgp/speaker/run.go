package speaker

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"purelb.io/purelb/internal/bgp/speaker/cluster"
	"purelb.io/purelb/internal/kube"
	"purelb.io/purelb/internal/kube/events"
	"purelb.io/purelb/internal/nodes/shutdown"
	"purelb.io/purelb/internal/process"
)

const (
	// eventSource is the reporting component of events.
	eventSource = "k8gobgp"
	// memoryFile is the name of the file in StateDir.
	memoryFile = "input.json"
	// askEvery is the interval at which Run asks whether the API server is there.
	askEvery = time.Second
)

// Setup holds the options of the speaker's program.
type Setup struct {
	// Node is the name of this node. Namespace is the install namespace of PureLB.
	Node, Namespace string
	// Pod and PodUID identify the pod of this speaker, so that it can find out why it ends.
	// Without them routers keep its routes.
	Pod, PodUID string
	// Machine notices that the machine goes down. With nil the speaker does not notice it.
	Machine *shutdown.Machine
	// ConfigNamespaces are further namespaces whose ServiceGroups and LBNodeAgents the speaker
	// uses. config.Everywhere means all namespaces.
	ConfigNamespaces []string
	// Metrics and Health are the addresses of the metrics and the probes, "host:port". "0"
	// means: not served.
	Metrics, Health string
	// StateDir is the folder of the state that survives restarts. "" means: no such state.
	StateDir string
	// PerNeighbor gives each neighbor its own metrics, up to MostNeighbors.
	PerNeighbor   bool
	MostNeighbors int
	// Services returns the addresses that this node has only for Services. Metrics and probes
	// are not served there. With nil they are.
	Services func(context.Context) (map[netip.Addr]bool, error)
	// Restart ends ctx of Run, because the program must start anew to apply the configuration.
	Restart func()
	Log     *slog.Logger

	// lastWrite limits the last write of the status, if it is not 0.
	lastWrite time.Duration
}

// Run builds a speaker from its drivers and the API server of config. It runs the speaker
// until ctx is done or a part of it fails.
func Run(ctx context.Context, config *rest.Config, server Server, kernel Kernel, bfd BFD, s Setup) error {
	clients, err := cluster.NewClients(config)
	if err != nil {
		return err
	}
	api, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics := NewMetrics(registry, s.PerNeighbor, s.MostNeighbors)
	caches := cluster.NewCaches(clients, s.Node, s.Namespace, s.Log, s.ConfigNamespaces...)
	writer := NewWriter(clients, s.Node, metrics, s.Log)
	writer.lastWrite = cmp.Or(s.lastWrite, writer.lastWrite)

	recorder := events.New(events.To(clients.Core), corev1.EventSource{Component: eventSource, Host: s.Node}, s.Log)

	// An uninstall removes the rights of this process at the same moment. Without nativeSidecar the
	// agent still has its addresses at that time.
	end := &shutdown.Reader{
		Core: clients.Core, Apps: clients.Apps,
		Namespace: s.Namespace, Pod: s.Pod, UID: s.PodUID, Node: s.Node, NodeDeleted: caches.NodeDeleted, Machine: s.Machine, Log: s.Log,
	}
	speaker := New(Options{
		Node: s.Node, Namespace: s.Namespace, ConfigNamespaces: s.ConfigNamespaces,
		Server: server, Kernel: kernel, BFD: bfd, Cluster: caches, Reports: writer,
		Events:  recorder,
		Metrics: metrics, Log: s.Log, Memory: s.memory(ctx),
		Endings: end, Restart: s.Restart,
	})
	watches := func(ctx context.Context) error {
		// A watch that starts while the API server is away retries with a growing pause.
		kube.Await(ctx, api, askEvery, s.Log)
		return process.Together(ctx, caches.Run, end.Run)
	}
	return process.Outlive(ctx, speaker.Run, watches, writer.Run, recorder.Run,
		process.Server{Address: s.Metrics, Handler: speaker.MetricsHandler(registry), Services: s.Services}.Run,
		process.Server{Address: s.Health, Handler: speaker.HealthHandler(writer.Written), Services: s.Services}.Run)
}

// memory makes StateDir, and returns the path of the file in it, or "" if there is no folder.
func (s Setup) memory(ctx context.Context) string {
	if s.StateDir == "" {
		return ""
	}
	if err := os.MkdirAll(s.StateDir, 0o700); err != nil {
		s.Log.WarnContext(ctx, "inputNotRemembered", "node", s.Node, "error", err)
		return ""
	}
	return filepath.Join(s.StateDir, memoryFile)
}
