package speaker

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"purelb.io/purelb/internal/apiserver"
	"purelb.io/purelb/internal/events"
	"purelb.io/purelb/internal/process"
	"purelb.io/purelb/internal/shutdown"
)

const (
	// eventSource is who events are from.
	eventSource = "k8gobgp"
	// memoryFile is the name of the file in StateDir.
	memoryFile = "input.json"
	// askEvery is how often the API server is asked whether it is there.
	askEvery = time.Second
)

// Setup is what the program of a speaker is told.
type Setup struct {
	// Node is the name of this node, Namespace the one that PureLB is
	// installed in.
	Node, Namespace string
	// Pod and PodUID are those of this speaker's pod, by which it finds out why it
	// ends. Without them routers keep its routes.
	Pod, PodUID string
	// Machine notices whether the machine goes down; nil: that is not noticed.
	Machine *shutdown.Machine
	// ConfigNamespaces are further namespaces of which ServiceGroups and
	// LBNodeAgents count; config.Everywhere stands for all.
	ConfigNamespaces []string
	// Metrics and Health are where metrics and probes are served, "host:port";
	// "0" is nowhere.
	Metrics, Health string
	// StateDir is the folder for what is remembered over restarts; "": nothing
	// is.
	StateDir string
	// PerNeighbor has each neighbour have metrics of its own, up to
	// MostNeighbors of them.
	PerNeighbor   bool
	MostNeighbors int
	Log           *slog.Logger

	// lastWrite is how long the last write of the status may take, if it is not 0.
	lastWrite time.Duration
}

// Run builds a speaker on its drivers and the API server of config, and runs it
// until ctx is done or a part of it fails.
func Run(ctx context.Context, config *rest.Config, server Server, kernel Kernel, bfd BFD, s Setup) error {
	clients, err := NewClients(config)
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
	caches := NewCaches(clients, s.Node, s.Namespace, s.ConfigNamespaces...)
	writer := NewWriter(clients, s.Node, metrics, s.Log)
	writer.lastWrite = cmp.Or(s.lastWrite, writer.lastWrite)

	told := events.New(events.To(clients.core), corev1.EventSource{Component: eventSource, Host: s.Node}, s.Log)

	// At an uninstall the rights go at the same moment, and without nativeSidecar the agent
	// has the addresses still.
	end := &shutdown.Reader{
		Core: clients.core, Apps: clients.apps,
		Namespace: s.Namespace, Pod: s.Pod, UID: s.PodUID, Node: s.Node, NodeDeleted: caches.nodeDeleted, Machine: s.Machine, Log: s.Log,
	}
	speaker := New(Options{
		Node: s.Node, Namespace: s.Namespace, ConfigNamespaces: s.ConfigNamespaces,
		Server: server, Kernel: kernel, BFD: bfd, Cluster: caches, Reports: writer,
		Events:  told,
		Metrics: metrics, Log: s.Log, Memory: s.memory(ctx),
		Endings: end,
	})
	watches := func(ctx context.Context) error {
		// A watch that begins while the API server is away tries ever more
		// slowly.
		apiserver.Await(ctx, api, askEvery, s.Log)
		return process.Together(ctx, caches.Run, end.Run)
	}
	return process.Outlive(ctx, speaker.Run, watches, writer.Run, told.Run,
		process.Server{Address: s.Metrics, Handler: speaker.MetricsHandler(registry)}.Run,
		process.Server{Address: s.Health, Handler: speaker.HealthHandler(writer.Written)}.Run)
}

// memory is the file for what is remembered, or "" when there can be none.
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
