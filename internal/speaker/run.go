package speaker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"purelb.io/purelb/internal/apiserver"
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
	// installed in, Pod the name of this process's pod, or "".
	Node, Namespace, Pod string
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
	caches := NewCaches(clients, s.Node, s.Namespace)
	writer := NewWriter(clients, s.Namespace, s.Node, s.Pod, metrics, s.Log)

	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(sink{clients.core})

	speaker := New(Options{
		Node: s.Node, Namespace: s.Namespace,
		Server: server, Kernel: kernel, BFD: bfd, Cluster: caches, Reports: writer,
		Events:  broadcaster.NewRecorder(scheme, corev1.EventSource{Component: eventSource, Host: s.Node}),
		Metrics: metrics, Log: s.Log, Memory: s.memory(ctx),
	})
	watches := func(ctx context.Context) error {
		// A watch that begins while the API server is away tries ever more
		// slowly.
		apiserver.Await(ctx, api, askEvery, s.Log)
		return caches.Run(ctx)
	}
	return outlive(ctx, speaker.Run, watches, writer.Run,
		served{s.Metrics, speaker.MetricsHandler(registry)}.run,
		served{s.Health, speaker.HealthHandler(writer.Written)}.run)
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

// outlive runs first until ctx is done, and others until first has ended too: it
// may need them to say goodbye. When one of them ends, so do all.
func outlive(ctx context.Context, first func(context.Context) error, others ...func(context.Context) error) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	longer, endAll := context.WithCancel(context.WithoutCancel(ctx))
	defer endAll()
	ended := make(chan error, len(others))
	for _, other := range others {
		go func() {
			defer end()
			ended <- other(longer)
		}()
	}
	errs := []error{first(ctx)}
	endAll()
	for range others {
		errs = append(errs, <-ended)
	}
	return errors.Join(errs...)
}

// served is a handler and where it is served.
type served struct {
	address string
	handler http.Handler
}

func (s served) run(ctx context.Context) error {
	if s.address == "0" || s.address == "" {
		<-ctx.Done()
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("serve metrics and probes: %w", err)
	}
	srv := &http.Server{Handler: s.handler, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics and probes: %w", err)
	}
	return nil
}
