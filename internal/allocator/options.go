package allocator

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options are what the allocator needs to know. Only Namespace and Log are
// required.
type Options struct {
	// Namespace is the one that PureLB is installed in.
	Namespace string
	// ConfigNamespaces are further namespaces of which ServiceGroups and
	// LBNodeAgents count; config.Everywhere stands for all.
	ConfigNamespaces []string
	// DefaultAnnouncer says that Services without a load balancer class are
	// ours.
	DefaultAnnouncer bool
	// IgnorePodCIDRs says that the network plugin gives pods other addresses than
	// those of spec.podCIDRs of Nodes, so that Services may have the latter.
	IgnorePodCIDRs bool
	// LeaderElect has one of several allocators work at a time. Without it
	// nothing tells whether an earlier allocator has writes on their way.
	LeaderElect bool
	// Identity names this process in the leader election. Default: a name
	// that no other process has.
	Identity string
	// LeaseDuration is for how long a leader that does not renew its Lease is
	// waited for, RenewDeadline for how long it may write, and RetryPeriod
	// how often it renews. Default: 20 s, 14 s and 4 s.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// MetricsAddress and HealthAddress are where /metrics, and /healthz and
	// /readyz, are served. Default: nowhere.
	MetricsAddress, HealthAddress string
	// GossipSecret is the name of the Secret with the key of the agents'
	// gossip, in Namespace, which is made where there is none. Default: no
	// Secret is made.
	GossipSecret string
	// ClusterName names this cluster to NetBox and other backends, in one word without a
	// slash. A cluster that is built anew under the same name finds its addresses again.
	// Default: the UID of the namespace kube-system.
	ClusterName string
	// BGP has the status of BGPConfigurations kept.
	BGP bool
	// Metrics is where metrics are registered. Default: the registry that
	// MetricsAddress serves.
	Metrics prometheus.Registerer
	// Workers is how many Services are written at a time. Default: 16.
	Workers int
	Log     *slog.Logger
}

// complete fills in what is not said.
func (o Options) complete() Options {
	o.Workers = cmp.Or(o.Workers, defaultWorkers)
	o.LeaseDuration = cmp.Or(o.LeaseDuration, leaseDuration)
	o.RenewDeadline = cmp.Or(o.RenewDeadline, renewDeadline)
	o.RetryPeriod = cmp.Or(o.RetryPeriod, retryPeriod)
	return o
}
