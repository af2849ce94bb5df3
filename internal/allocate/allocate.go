// Package allocate gives Services of type LoadBalancer their addresses.
//
// It watches Services, ServiceGroups, LBNodeAgents, Nodes, the labels of Namespaces and the
// Leases of the node agents. Of Services that are not of type LoadBalancer it keeps only those
// that matter. Package ipam decides. The allocator writes each decision into its Service with
// one patch, and reports what it sees in events, conditions and metrics. It knows nothing of
// interfaces and announces nothing.
//
// Read services.go first: Reconcile handles one Service. These parts keep state between two rounds:
//
//	allocations    which Service has which address, and which Services wait for one.
//	               They make one decision at a time; statuses lag behind them. For ten
//	               minutes they know which Service gave up an address, so that an edit
//	               that is taken back changes no address. A new process has forgotten
//	               that: it gives the lowest free address
//	memories       what the API server does not know of each Service: the outcome of
//	               the last write, a contest, what was reported
//	configWatcher  the state of the cluster that decisions depend on, as last read.
//	               When the state changes, it has the waiting Services served
//	writeGate      which writes are running. It lets writes through while the Lease is
//	               surely ours, and limits how late they take effect
//	leaderLock     the Lease of the leader election, which opens and closes the gate
//
// These parts read their input each time:
//
//	bootstrap      fills the allocations from the API server, before the loop begins and
//	               when no write of a former leader can take effect any more
//	backends       (package backends) carry claims to NetBox and IPAM servers, and return
//	               the answers. They keep only how to reach the servers
//	census.State   (package census) what the objects of the cluster mean for decisions,
//	               among them the addresses that Services must not get
//	reporter       the status of ServiceGroups and LBNodeAgents
//	stateServer    the answer at /state, for the plugin
package allocate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/allocate/allocstate"
	"purelb.io/purelb/internal/allocate/census"
	"purelb.io/purelb/internal/kube"
	"purelb.io/purelb/internal/kube/events"
)

// grace is how long running writes may still take after the process was asked to stop.
const grace = 5 * time.Second

// Run allocates addresses until ctx is done. It returns when none of its writes is running.
func Run(ctx context.Context, cfg *rest.Config, opt Options) error {
	if opt.Namespace == "" {
		return fmt.Errorf("the namespace that PureLB is installed in is not known")
	}
	opt = opt.complete()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	f := newWriteGate(0)
	if opt.LeaderElect {
		f = newWriteGate(opt.RenewDeadline)
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

// component is the source of the allocator's events, and the field manager of its writes:
// managedFields name it.
const component = "purelb-allocator"

// run puts the allocator together and runs it. Its writes pass the gate f. It calls end
// when another allocator has taken the lead.
func run(ctx context.Context, cfg *rest.Config, opt Options, f *writeGate, end func(error)) error {
	cfg = rest.AddUserAgent(rest.CopyConfig(cfg), component)
	leader, err := newLeaderLock(cfg, opt, f, end)
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
func newManager(cfg *rest.Config, opt Options, leader *leaderLock) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v2.AddToScheme, bgpv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("make the scheme: %w", err)
		}
	}
	cached, err := cacheOptions(opt.Namespace)
	if err != nil {
		return nil, fmt.Errorf("say what to cache: %w", err)
	}
	mgr, err := manager.New(cfg, manager.Options{
		Scheme: scheme, MapperProvider: mapper, NewCache: newWaitingCache(opt.Log), Cache: cached, Logger: logr.FromSlogHandler(opt.Log.Handler()),
		LeaderElection: opt.LeaderElect, LeaderElectionID: leaseName, LeaderElectionNamespace: opt.Namespace,
		LeaderElectionResourceLockInterface: leader, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &opt.LeaseDuration, RenewDeadline: &opt.RenewDeadline, RetryPeriod: &opt.RetryPeriod,
		Metrics:                server.Options{BindAddress: cmp.Or(opt.MetricsAddress, noAddress)},
		HealthProbeBindAddress: cmp.Or(opt.HealthAddress, noAddress),
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	return mgr, nil
}

// noAddress is the address of a server that does not serve.
const noAddress = "0"

// newGatedClient makes the client for everything that only the leader may write. Its writes
// have the field manager component.
func newGatedClient(mgr manager.Manager, f *writeGate) (client.Client, error) {
	cfg := kube.ForWrites(mgr.GetConfig())
	cfg.Wrap(f.wrap)
	c, err := client.New(cfg, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("make the client of writes: %w", err)
	}
	return client.WithFieldOwner(c, component), nil
}

// assemble makes the parts, from the bottom up, and adds them to mgr.
func assemble(ctx context.Context, mgr manager.Manager, opt Options, leader *leaderLock) error {
	gated, err := newGatedClient(mgr, leader.gate)
	if err != nil {
		return err
	}
	core, err := typedcorev1.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("make the client of events: %w", err)
	}
	log, cached, changed := opt.Log, mgr.GetCache(), make(chan struct{}, 1)
	queue := &queue{}
	others, err := watchOthers(mgr.GetConfig(), queue)
	if err != nil {
		return err
	}
	allocations := newAllocations(queue.wake)
	configWatcher := &configWatcher{cached: cached, live: mgr.GetAPIReader(), allocations: allocations, install: census.Install{Namespace: opt.Namespace, ConfigNamespaces: opt.ConfigNamespaces, IgnorePodCIDRs: opt.IgnorePodCIDRs}, clusterName: opt.ClusterName, changed: changed, log: log}
	metrics := newMetrics(allocations, configWatcher.current)
	backends := newBackends(allocations, core, opt, metrics.backends, changed)
	allocations.poke, metrics.states = backends.Poke, backends.States
	configWatcher.metrics, configWatcher.backends = metrics, backends
	configWatcher.all = func(ctx context.Context) error { return requeueAll(ctx, cached, allocations, queue) }
	writer := &writer{client: gated, metrics: metrics}
	recorder := events.New(events.To(core.RESTClient()), corev1.EventSource{Component: component}, log)
	recorder.Busy = writer.busy
	services := &services{
		cached: cached, live: mgr.GetAPIReader(), write: writer, allocations: allocations, events: recorder,
		metrics: metrics, changed: changed, rules: opt.Rules, log: log,
	}
	bootstrap := &bootstrap{
		cached: cached, others: others, allocations: allocations, configWatcher: configWatcher, queue: queue,
		quiet: leader.quiet, rules: opt.Rules, log: log,
	}
	reporter := &reporter{
		cached: cached, client: gated, configWatcher: configWatcher, allocations: allocations,
		events: recorder, metrics: metrics, changed: changed, log: log,
	}
	if err := opt.Metrics.Register(metrics); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	for _, o := range watched() {
		if _, err := cached.GetInformer(ctx, o, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", o, err)
		}
	}
	key := &gossipKey{secrets: core.Secrets(opt.Namespace), name: opt.GossipSecret, log: log}
	parts := []manager.Runnable{manager.RunnableFunc(recorder.Run), reporter, key, runBackends(backends, allocations, configWatcher, opt.ReplacesCluster)}
	if opt.Loop != nil {
		loop, err := opt.Loop(mgr, gated, core.Secrets(opt.Namespace), recorder)
		if err != nil {
			return err
		}
		parts = append(parts, loop)
	}
	for _, r := range parts {
		if err := mgr.Add(r); err != nil {
			return err
		}
	}
	state := &stateServer{allocations: allocations, services: services, states: backends.States, leader: leader, elected: mgr.Elected(), alone: !opt.LeaderElect}
	if err := mgr.AddMetricsServerExtraHandler(allocstate.Path, state); err != nil {
		return fmt.Errorf("serve %s: %w", allocstate.Path, err)
	}
	return control(mgr, services, bootstrap, configWatcher)
}
