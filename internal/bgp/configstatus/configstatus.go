// Package configstatus writes the part of the status of BGPConfigurations that is the same on all
// nodes. It also removes the finalizer of an older version from BGPConfigurations that are being
// deleted. The state of one node is in its BGPNodeStatus, which its speaker writes.
//
// The allocator's program runs this loop because the speakers share a service account: with a right
// to change BGPConfigurations, each node could reconfigure all others. The loop keeps no state
// between two rounds.
package configstatus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/kube"
	"purelb.io/purelb/internal/kube/events"
)

const (
	// olderFinalizer is the finalizer that an older version put on BGPConfigurations. Each speaker
	// notices a deletion itself, so a deletion need not wait for the speakers.
	olderFinalizer = "bgp.purelb.io/finalizer"
	// check is how often the loop reads all BGPConfigurations, because the Secrets that they name may
	// appear or disappear, and the labels of Nodes may change. retry is the pause after a failure.
	check = 30 * time.Second
	retry = 5 * time.Second
)

// reporter is the loop.
type reporter struct {
	configs   *kube.Watch[*bgpv1.BGPConfiguration]
	changed   chan struct{}
	nodes     client.Reader
	write     client.Client
	secrets   typedcorev1.SecretInterface
	events    *events.Recorder
	namespace string
	log       *slog.Logger
}

// Loop makes the loop for a manager. It serves the BGPConfigurations of namespace, which PureLB is
// installed in. It writes by write and recorder, and reads secrets of namespace.
//
// The loop watches BGPConfigurations itself. So no other part waits for them if they cannot be read.
func Loop(namespace string, log *slog.Logger) func(manager.Manager, client.Client, typedcorev1.SecretInterface, *events.Recorder) (manager.Runnable, error) {
	return func(mgr manager.Manager, write client.Client, secrets typedcorev1.SecretInterface, recorder *events.Recorder) (manager.Runnable, error) {
		bgp, err := kube.Client(mgr.GetConfig(), bgpv1.GroupVersion, bgpv1.AddToScheme)
		if err != nil {
			return nil, fmt.Errorf("make the client of BGPConfigurations: %w", err)
		}
		changed := make(chan struct{}, 1)
		configs := kube.NewWatch(toolscache.NewListWatchFromClient(bgp, "configs", namespace, fields.Everything()),
			func(c *bgpv1.BGPConfiguration) (*bgpv1.BGPConfiguration, bool) { return c, true },
			func(a, b *bgpv1.BGPConfiguration) bool { return a.ResourceVersion == b.ResourceVersion },
			func(_, _ **bgpv1.BGPConfiguration) { backoff.Poke(changed) })
		return &reporter{configs: configs, changed: changed, nodes: mgr.GetCache(), write: write, secrets: secrets, events: recorder, namespace: namespace, log: log}, nil
	}
}

// Start implements manager.Runnable. Only the leader writes. The loop reconciles all BGPConfigurations when one of
// them changes, and every check.
func (r *reporter) Start(ctx context.Context) error {
	loop := backoff.Loop{
		Schedule: backoff.Schedule{Every: check, Retry: backoff.Pauses{Min: retry, Max: retry}},
		Asked:    r.changed,
		Do:       func(ctx context.Context) (time.Time, error) { return time.Time{}, r.reconcile(ctx, time.Now()) },
		Failed: func(ctx context.Context, err error) {
			r.log.WarnContext(ctx, "bgpConfigurationsNotWritten", "error", err)
		},
	}
	go r.configs.Run(ctx)
	return loop.Run(ctx)
}

// reconcile reports on each BGPConfiguration, or removes its finalizer if it is being
// deleted.
func (r *reporter) reconcile(ctx context.Context, now time.Time) error {
	all, complete := r.configs.All()
	if !complete {
		return nil // until the first list
	}
	var nodes corev1.NodeList
	if err := r.nodes.List(ctx, &nodes); err != nil {
		return fmt.Errorf("read the Nodes: %w", err)
	}
	var cluster peering.Cluster
	for _, c := range all {
		cluster.Configs = append(cluster.Configs, *c)
	}
	for i := range nodes.Items {
		cluster.Nodes = append(cluster.Nodes, nodes.Items[i].Labels)
	}
	var errs []error
	for _, c := range all {
		var err error
		if c.DeletionTimestamp.IsZero() {
			err = r.report(ctx, c, cluster, now)
		} else {
			err = r.release(ctx, c)
		}
		// A BGPConfiguration that changed in the meantime is reconciled again.
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("BGPConfiguration %s/%s: %w", c.Namespace, c.Name, err))
		}
	}
	return errors.Join(errs...)
}

// release removes the older version's finalizer from c.
func (r *reporter) release(ctx context.Context, c *bgpv1.BGPConfiguration) error {
	if !slices.Contains(c.Finalizers, olderFinalizer) {
		return nil
	}
	free := c.DeepCopy()
	free.Finalizers = slices.DeleteFunc(free.Finalizers, func(f string) bool { return f == olderFinalizer })
	if err := r.write.Patch(ctx, free, client.MergeFromWithOptions(c, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("remove the finalizer %s: %w", olderFinalizer, err)
	}
	r.log.InfoContext(ctx, "finalizerRemoved", "config", c.Namespace+"/"+c.Name)
	return nil
}

// report writes the status of c if it differs.
func (r *reporter) report(ctx context.Context, c *bgpv1.BGPConfiguration, cluster peering.Cluster, now time.Time) error {
	var unread error
	secret := func(name, key string) (string, error) {
		known, err := r.secret(ctx, name)
		unread = errors.Join(unread, err)
		return known.Value(r.namespace, name, key)
	}
	status := cluster.CommonStatus(c, secret, now)
	if unread != nil {
		return unread // report nothing while a Secret could not be read
	}
	if equality.Semantic.DeepEqual(c.Status, status) {
		return nil
	}
	said := c.DeepCopy()
	said.Status = status
	if err := r.write.Status().Patch(ctx, said, client.MergeFromWithOptions(c, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	if ready := status.Conditions[0]; ready.Status == metav1.ConditionFalse && status.Message != c.Status.Message {
		about := &corev1.ObjectReference{APIVersion: bgpv1.GroupVersion.String(), Kind: "BGPConfiguration", Namespace: c.Namespace, Name: c.Name, UID: c.UID}
		r.events.Eventf(about, corev1.EventTypeWarning, ready.Reason, "%s", status.Message)
	}
	return nil
}

// secret reads the Secret of this name.
func (r *reporter) secret(ctx context.Context, name string) (peering.Secret, error) {
	s, err := r.secrets.Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		return peering.Secret{Data: s.Data, Known: true, Exists: true}, nil
	case apierrors.IsNotFound(err):
		return peering.Secret{Known: true}, nil
	case apierrors.IsForbidden(err):
		return peering.Secret{Forbidden: true}, nil
	}
	return peering.Secret{}, fmt.Errorf("read the secret %s: %w", name, err)
}
