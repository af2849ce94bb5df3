package allocate

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/service"
)

// A group that restricts names neighbors or nodes: its addresses are announced only to these neighbors, and
// only by these nodes. The record of a Service says whether the group of an address restricts. Without the
// group, the speakers announce such an address to nobody. So a group that restricts has
// config.GroupFinalizer. After its deletion, the group stays until no Service has an address of it. A group
// that restricts no more keeps the finalizer until no record says that it restricts.

// keep adds the finalizer to g, or removes it. It reports whether g is settled, and needs no such
// change any more. users are the Services with addresses of g that keep g from being deleted.
func (r *reporter) keep(ctx context.Context, g *v2.ServiceGroup, used *usage, s clusterState) (users []string, settled bool, err error) {
	has, deleting := controllerutil.ContainsFinalizer(g, config.GroupFinalizer), !g.DeletionTimestamp.IsZero()
	install := r.configWatcher.install
	restricts := config.Restricts(g.Spec)
	needs := (restricts || has) && config.InScope(g.Namespace, install.Namespace, install.ConfigNamespaces)
	if needs && has && (deleting || !restricts) {
		if deleting && used != nil && !used.group.Deleting {
			return nil, false, nil // The allocations do not know of the deletion, and may still give an address.
		}
		users, err = r.usersOf(ctx, g, s, !restricts)
		if needs = err != nil || len(users) > 0; needs && !restricts {
			users, r.next = nil, time.Now().Add(reportPause) // the records of these Services change soon
		}
	}
	if err != nil || needs == has || needs && deleting {
		return users, err == nil, err
	}
	return nil, false, setFinalizer(ctx, r.client, g, config.GroupFinalizer, needs)
}

// setFinalizer adds a finalizer to o, or removes it. It fails with a conflict if o has changed since
// it was read.
func setFinalizer(ctx context.Context, c client.Client, o client.Object, finalizer string, add bool) error {
	after := o.DeepCopyObject().(client.Object)
	controllerutil.RemoveFinalizer(after, finalizer)
	if add {
		controllerutil.AddFinalizer(after, finalizer)
	}
	ctx, cancel, err := begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	if err := c.Patch(ctx, after, client.MergeFromWithOptions(o, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write the finalizers of %s/%s: %w", o.GetNamespace(), o.GetName(), err)
	}
	return nil
}

// usersOf returns the Services with addresses of g, sorted. An address is of the usable group that has
// it in a pool, and otherwise of the group that the record of the Service names. What the allocations
// hold counts too, because a Service may not show it yet. PureLB does not announce the Services of other
// controllers. With recorded, only those count whose record still says that g restricts.
func (r *reporter) usersOf(ctx context.Context, g *v2.ServiceGroup, s clusterState, recorded bool) ([]string, error) {
	var list corev1.ServiceList
	if err := r.cached.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("read the services: %w", err)
	}
	names := []string{g.Namespace + "/" + g.Name}
	if g.Namespace == r.configWatcher.install.Namespace {
		names = append(names, g.Name, g.Spec.Name)
	} else {
		names = append(names, g.Namespace+"/"+g.Spec.Name)
	}
	users, others := r.allocations.holdersIn(g)
	if recorded {
		users = nil
	}
	for i := range list.Items {
		svc := &list.Items[i]
		if others[svc.Namespace+"/"+svc.Name] {
			continue
		}
		record, _ := service.RecordOf(svc)
		has := func(text string) bool {
			return slices.ContainsFunc(strings.Split(text, ", "), func(name string) bool { return name != "" && slices.Contains(names, name) })
		}
		if recorded && !has(record.Restricted) {
			continue
		}
		from := has(record.From)
		if slices.ContainsFunc(service.Ingress(svc), func(a netip.Addr) bool {
			of, _, pooled := s.Config.Groups.GroupOf(a)
			return pooled && of.UID == g.UID || !pooled && from
		}) {
			users = append(users, svc.Namespace+"/"+svc.Name)
		}
	}
	slices.Sort(users)
	return slices.Compact(users), nil
}

// holdersIn returns the Services of ours that hold an address of g, and all Services of other controllers.
func (l *allocations) holdersIn(g *v2.ServiceGroup) (ours []string, others map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	others = map[string]bool{}
	for who, rec := range l.services {
		if rec.foreign != "" {
			others[string(who)] = true
		} else if slices.ContainsFunc(l.cluster.Store.Held(who), func(a netip.Addr) bool {
			of, _, ok := l.cluster.GroupOf(a)
			return ok && of.UID == g.UID
		}) {
			ours = append(ours, string(who))
		}
	}
	return ours, others
}

// mostUsers is how many Services the condition of a deleted group names.
const mostUsers = 20

// terminating is the condition of a deleted group that stays because Services have its addresses. For
// other groups it has no status.
func terminating(g *v2.ServiceGroup, users []string) metav1.Condition {
	c := metav1.Condition{Type: v2.ConditionTerminating}
	if len(users) == 0 {
		return c
	}
	named := strings.Join(users[:min(len(users), mostUsers)], ", ")
	if more := len(users) - mostUsers; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	c.Status, c.Reason = metav1.ConditionTrue, "AddressesInUse"
	c.Message = fmt.Sprintf("Services have addresses of the group: %s. Delete them, or set their annotations %s to another group and %s to \"true\", "+
		"or create another group with these addresses. To delete the group now and have the addresses announced to all neighbors by all nodes: "+
		`kubectl patch servicegroup -n %s %s --type=merge -p '{"spec":{"bgp":null}}'`,
		named, service.AnnotationGroup, service.AnnotationReevaluate, g.Namespace, g.Name)
	return c
}
