package allocate

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"purelb.io/purelb/internal/kube/events"
	"purelb.io/purelb/internal/service"
)

// Options are what the allocator needs to know. Only Namespace and Log are
// required.
type Options struct {
	// Namespace is the namespace that PureLB is installed in.
	Namespace string
	// ConfigNamespaces are further namespaces whose ServiceGroups and LBNodeAgents PureLB uses;
	// config.Everywhere stands for all.
	ConfigNamespaces []string
	// Rules say how Services are read.
	Rules service.Rules
	// IgnorePodCIDRs says that the network plugin does not use spec.podCIDRs of Nodes, so
	// that Services may have these addresses.
	IgnorePodCIDRs bool
	// LeaderElect lets only one of several allocators work at a time. Without it, an allocator
	// cannot know whether writes of an earlier one may still arrive.
	LeaderElect bool
	// Identity names this process in the leader election. Default: a unique name.
	Identity string
	// LeaseDuration is how long other allocators wait for a leader that does not renew its
	// Lease. RenewDeadline is how long such a leader may still write. RetryPeriod is how
	// often a leader renews. Default: 20 s, 14 s and 4 s.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// MetricsAddress and HealthAddress are where /metrics, and /healthz and
	// /readyz, are served. Default: nowhere.
	MetricsAddress, HealthAddress string
	// GossipSecret is the name of the Secret in Namespace with the key of the agents'
	// gossip. The allocator makes it if there is none. Default: no Secret is made.
	GossipSecret string
	// ClusterName names this cluster to NetBox and other backends, in one word without a slash. A
	// cluster that is rebuilt under the same name finds its addresses again. Default: the UID of
	// the namespace kube-system.
	ClusterName string
	// ReplacesCluster is the UID of the namespace kube-system of a former cluster with the same
	// ClusterName. Its addresses in NetBox are then those of this cluster. Default: none.
	ReplacesCluster string
	// SweepEvery is the time between two comparisons of the addresses in NetBox with those of the
	// cluster. Default: 10 min.
	SweepEvery time.Duration
	// Loop is a further loop that only the leader runs. Default: none.
	Loop Loop
	// Metrics is the registry for metrics. Default: the registry that MetricsAddress
	// serves.
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Loop makes a loop that the leader runs. The loop writes by write, which writes nothing when the Lease
// may have ended. It may read the Secrets of the namespace that PureLB is installed in.
type Loop func(mgr manager.Manager, write client.Client, secrets typedcorev1.SecretInterface, recorder *events.Recorder) (manager.Runnable, error)

// complete fills in the defaults.
func (o Options) complete() Options {
	o.LeaseDuration = cmp.Or(o.LeaseDuration, leaseDuration)
	o.RenewDeadline = cmp.Or(o.RenewDeadline, renewDeadline)
	o.RetryPeriod = cmp.Or(o.RetryPeriod, retryPeriod)
	if o.Metrics == nil {
		o.Metrics = ctrlmetrics.Registry
	}
	return o
}
