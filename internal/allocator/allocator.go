// Package allocator gives Services of type LoadBalancer their addresses.
//
// It watches Services, ServiceGroups, LBNodeAgents, Nodes and the Leases of the
// node agents, has package selection decide, writes each decision into its
// Service with one patch, and reports what it sees in events, conditions and
// metrics. It knows nothing of interfaces and announces nothing.
//
// What is held where:
//
//	ledger     who has which address, who waits for one; decides, one at a time
//	services   the loop: one Service, its decision, its patch
//	opening    fills the ledger from the API server, before the loop begins
//	lookout    what decisions depend on beside Services; has those who wait served
//	reporter   the status of ServiceGroups and LBNodeAgents
//	recorder   events
package allocator

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v2 "purelb.io/purelb/api/purelb/v2"
)

// Options are what the allocator needs to know. Only Namespace and Log are
// required.
type Options struct {
	// Namespace is the one that PureLB is installed in.
	Namespace string
	// DefaultAnnouncer says that Services without a load balancer class are
	// ours.
	DefaultAnnouncer bool
	// LeaderElect has one of several allocators work at a time.
	LeaderElect bool
	// Identity names this process in the leader election. Default: a name
	// that no other process has.
	Identity string
	// MetricsAddress and HealthAddress are where /metrics, and /healthz and
	// /readyz, are served. Default: nowhere.
	MetricsAddress, HealthAddress string
	// Metrics is where metrics are registered. Default: the registry that
	// MetricsAddress serves.
	Metrics prometheus.Registerer
	// Workers is how many Services are written at a time. Default: 16.
	Workers int
	Log     *slog.Logger
}

// Run allocates addresses until ctx is done.
func Run(ctx context.Context, cfg *rest.Config, opt Options) error {
	if opt.Namespace == "" {
		return fmt.Errorf("the namespace that PureLB is installed in is not known")
	}
	mgr, err := newManager(cfg, opt)
	if err != nil {
		return err
	}
	if err := assemble(ctx, mgr, opt); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// newManager makes the manager: caches, clients, leader election and servers.
func newManager(cfg *rest.Config, opt Options) (manager.Manager, error) {
	cfg = rest.AddUserAgent(rest.CopyConfig(cfg), component)
	cfg.QPS = -1 // The API server's own fairness limits us.
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v2.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("make the scheme: %w", err)
		}
	}
	cached, err := cacheOptions(opt.Namespace)
	if err != nil {
		return nil, fmt.Errorf("say what to cache: %w", err)
	}
	leader, err := lock(cfg, opt.Namespace, opt.Identity)
	if err != nil {
		return nil, err
	}
	mgr, err := manager.New(cfg, manager.Options{
		Scheme: scheme, MapperProvider: mapper, NewCache: newPatient(opt.Log), Cache: cached, Logger: logr.FromSlogHandler(opt.Log.Handler()),
		LeaderElection: opt.LeaderElect, LeaderElectionID: leaseName, LeaderElectionNamespace: opt.Namespace,
		LeaderElectionResourceLockInterface: leader, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &leaseDuration, RenewDeadline: &renewDeadline, RetryPeriod: &retryPeriod,
		Metrics:                server.Options{BindAddress: orNowhere(opt.MetricsAddress)},
		HealthProbeBindAddress: orNowhere(opt.HealthAddress),
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	return mgr, nil
}

func orNowhere(address string) string {
	if address == "" {
		return "0"
	}
	return address
}

// assemble makes the parts, from the bottom up, and adds them to mgr.
func assemble(ctx context.Context, mgr manager.Manager, opt Options) error {
	core, err := typedcorev1.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("make the client of events: %w", err)
	}
	log, cached, changed := opt.Log, mgr.GetCache(), make(chan struct{}, 1)
	queue := &queue{}
	ledger := newLedger(queue.wake)
	lookout := &lookout{cached: cached, ledger: ledger, namespace: opt.Namespace, changed: changed, log: log}
	metrics := newMetrics(ledger.usages, lookout.outOfScope)
	lookout.metrics = metrics
	lookout.all = func(ctx context.Context) error { return requeueAll(ctx, cached, queue) }
	writer := &writer{client: mgr.GetClient(), metrics: metrics}
	events := newRecorder(&typedcorev1.EventSinkImpl{Interface: core.Events("")}, &writer.busy, log)
	services := &services{
		cached: cached, live: mgr.GetAPIReader(), write: writer, ledger: ledger, events: events,
		metrics: metrics, changed: changed, byDefault: opt.DefaultAnnouncer, log: log,
	}
	opening := &opening{
		live: mgr.GetAPIReader(), ledger: ledger, lookout: lookout, queue: queue, byDefault: opt.DefaultAnnouncer, log: log,
	}
	reporter := &reporter{
		cached: cached, client: mgr.GetClient(), lookout: lookout, ledger: ledger,
		events: events, metrics: metrics, changed: changed, log: log,
	}
	if err := register(ctx, opt.Metrics, metrics); err != nil {
		return err
	}
	for _, o := range watched() {
		if _, err := cached.GetInformer(ctx, o, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", o, err)
		}
	}
	for _, r := range []manager.Runnable{events, reporter, manager.RunnableFunc(opening.sweep)} {
		if err := mgr.Add(r); err != nil {
			return err
		}
	}
	return control(mgr, opt, services, opening, lookout)
}

// register makes metrics known to a registry for as long as ctx lasts.
func register(ctx context.Context, to prometheus.Registerer, m *metrics) error {
	if to == nil {
		to = ctrlmetrics.Registry
	}
	if err := to.Register(m); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	context.AfterFunc(ctx, func() { to.Unregister(m) })
	return nil
}
