// Package allocator gives Services of type LoadBalancer their addresses.
//
// It watches Services, ServiceGroups, LBNodeAgents, Nodes, the labels of
// Namespaces and the Leases of the node agents, has package selection decide,
// writes each decision into its Service with one patch, and reports what it sees
// in events, conditions and metrics. It knows nothing of interfaces and
// announces nothing.
//
// What is held where:
//
//	ledger     who has which address, who waits for one; decides, one at a time
//	services   the loop: one Service, its decision, its patch
//	opening    fills the ledger from the API server, before the loop begins
//	lookout    what decisions depend on beside Services; has those who wait served
//	reporter   the status of ServiceGroups and LBNodeAgents
//	fence      lets writes through while the Lease is surely ours; see there
//	tenure     the Lease of the leader election, which opens and closes the fence
package allocator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/apiserver"
	"purelb.io/purelb/internal/events"
	"purelb.io/purelb/internal/pool"
)

// grace is how long the writes that are under way may take when we are asked to
// stop.
const grace = 5 * time.Second

// Run allocates addresses until ctx is done. It returns when nothing that it has
// written is under way any more.
func Run(ctx context.Context, cfg *rest.Config, opt Options) error {
	if opt.Namespace == "" {
		return fmt.Errorf("the namespace that PureLB is installed in is not known")
	}
	opt = opt.complete()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	f := newFence(0)
	if opt.LeaderElect {
		f = newFence(opt.RenewDeadline)
	}
	context.AfterFunc(ctx, func() { time.AfterFunc(grace, f.close) })
	err := run(ctx, cfg, opt, f, end)
	f.close()
	f.wait()
	if errors.Is(context.Cause(ctx), errOvertaken) {
		return errors.Join(context.Cause(ctx), err)
	}
	return err
}

// component is the source of our events.
const component = "purelb-allocator"

// run puts the allocator together and runs it. What it writes passes f; it calls
// end when another allocator has taken the lead.
func run(ctx context.Context, cfg *rest.Config, opt Options, f *fence, end func(error)) error {
	cfg = rest.AddUserAgent(rest.CopyConfig(cfg), component)
	leader, err := newTenure(cfg, opt, f, end)
	if err != nil {
		return err
	}
	mgr, err := newManager(cfg, opt, leader)
	if err != nil {
		return err
	}
	if err := assemble(ctx, mgr, opt, leader); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// newManager makes the manager: caches, clients, leader election and servers.
func newManager(cfg *rest.Config, opt Options, leader *tenure) (manager.Manager, error) {
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
	mgr, err := manager.New(cfg, manager.Options{
		Scheme: scheme, MapperProvider: mapper, NewCache: newPatient(opt.Log), Cache: cached, Logger: logr.FromSlogHandler(opt.Log.Handler()),
		LeaderElection: opt.LeaderElect, LeaderElectionID: leaseName, LeaderElectionNamespace: opt.Namespace,
		LeaderElectionResourceLockInterface: leader, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &opt.LeaseDuration, RenewDeadline: &opt.RenewDeadline, RetryPeriod: &opt.RetryPeriod,
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

// newFenced makes the client of all that only a leader may write.
func newFenced(mgr manager.Manager, f *fence) (client.Client, error) {
	cfg := apiserver.ForWrites(mgr.GetConfig())
	cfg.Wrap(f.wrap)
	c, err := client.New(cfg, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("make the client of writes: %w", err)
	}
	return c, nil
}

// assemble makes the parts, from the bottom up, and adds them to mgr.
func assemble(ctx context.Context, mgr manager.Manager, opt Options, leader *tenure) error {
	fenced, err := newFenced(mgr, leader.fence)
	if err != nil {
		return err
	}
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
	lookout.all = func(ctx context.Context) error { return requeueAll(ctx, cached, ledger, queue) }
	writer := &writer{client: fenced, metrics: metrics}
	told := events.New(events.To(core.RESTClient()), corev1.EventSource{Component: component}, log)
	told.Busy = writer.busy
	services := &services{
		cached: cached, live: mgr.GetAPIReader(), write: writer, ledger: ledger, events: told,
		metrics: metrics, changed: changed, byDefault: opt.DefaultAnnouncer, log: log,
	}
	opening := &opening{
		cached: cached, live: mgr.GetAPIReader(), write: writer, ledger: ledger, lookout: lookout, queue: queue,
		unclean: leader.isUnclean, touched: map[pool.Owner]bool{}, workers: opt.Workers, byDefault: opt.DefaultAnnouncer, log: log,
	}
	reporter := &reporter{
		cached: cached, client: fenced, lookout: lookout, ledger: ledger,
		events: told, metrics: metrics, changed: changed, log: log,
	}
	if err := register(ctx, opt.Metrics, metrics); err != nil {
		return err
	}
	for _, o := range watched() {
		if _, err := cached.GetInformer(ctx, o, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", o, err)
		}
	}
	key := &gossipKey{secrets: core.Secrets(opt.Namespace), name: opt.GossipSecret, log: log}
	for _, r := range []manager.Runnable{manager.RunnableFunc(told.Run), reporter, manager.RunnableFunc(opening.sweep), key} {
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
