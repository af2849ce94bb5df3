package allocate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/service"
)

// A Service gets service.Finalizer before its first claim is sent to a backend. So no crash loses an
// address: the next allocator sees the Service, even if it was deleted meanwhile, and its claims are
// found by their keys. The order at the end is:
//
//  1. the status shows no address, so agents withdraw it;
//  2. the backends release all that they hold for the Service;
//  3. the finalizer is removed, and the API server deletes the Service.

// claims returns the claims of choice that may be sent: none for a Service without the finalizer, or
// for one that is being deleted.
func (l *allocations) claims(r service.Request, choice ipam.Choice) []ipam.Claim {
	if !r.Bound || r.Leaving {
		return nil
	}
	return choice.Claims
}

// bound reports whether the Service of r needs the finalizer and lacks it, or has it without need.
func (l *allocations) bound(r service.Request, choice ipam.Choice) (bind, unbind bool) {
	if r.Leaving {
		return false, false
	}
	needs := len(choice.Claims) > 0 || len(l.claimed(r)) > 0
	return needs && !r.Bound, r.Bound && !needs
}

// unclaimed reports whether no backend has anything for the Service of r.
func (l *allocations) unclaimed(r service.Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.claimed(r)) == 0
}

// claimed returns the keys of the claims that the Service of r has, by group. A Service that shares may have
// got its address before it did.
func (l *allocations) claimed(r service.Request) map[string]string {
	keys := map[string]string{}
	for _, g := range l.cluster.Groups.Usable {
		if g.Backend == "" {
			continue
		}
		for _, sharing := range slices.Compact([]string{r.SharingKey, ""}) {
			as := r
			as.SharingKey = sharing
			for _, f := range []addr.Family{addr.V4, addr.V6} {
				if c := l.cluster.ClaimOf(as, g, f); l.cluster.Claims.Has(c, owner(r)) {
					keys[g.Ref()] = c.Key
				}
			}
		}
	}
	return keys
}

// depart frees what the Service of r has, which is being deleted and shows no address. It lists the
// backends that must still release something.
//
// Services that share an address have one claim. The last of them to leave has it released.
func (l *allocations) depart(r service.Request) (waits []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	who := owner(r)
	if rec := l.of(who); !rec.departs {
		rec.departs = true
		departing := l.departing(r)
		l.claim(who, nil)
		l.cluster.Store.Forget(who)
		l.drop(who)
		l.serve()
		for group, key := range departing {
			h := ipam.Holder{Group: group, Name: ipam.HolderOf(key)}
			l.cluster.Claims.Depart(h, key)
			l.poke(h)
		}
	}
	return slices.Sorted(maps.Keys(l.claimed(r)))
}

// departing returns the groups whose backends may hold something for the Service of r, with the key
// of a claim: those that are known, and those that the Service would claim from. A former allocator
// may have sent such a claim.
func (l *allocations) departing(r service.Request) map[string]string {
	groups := l.claimed(r)
	r.Leaving = false
	for _, c := range l.choose(r).Claims {
		groups[c.Group] = c.Key
	}
	return groups
}

// bind adds the finalizer to svc, or removes it.
func (s *services) bind(ctx context.Context, svc *corev1.Service, m *memory, add bool) (reconcile.Result, error) {
	patch, err := service.BindPatch(svc, add)
	if err != nil {
		return reconcile.Result{}, err
	}
	after, err := s.write.spec(ctx, svc, patch)
	m.note(svc, after, err)
	if err != nil {
		return s.wait(svc.Namespace+"/"+svc.Name, err)
	}
	return reconcile.Result{}, nil
}

// reasonReleased is the reason of the condition of a Service that waits for its finalizer.
const reasonReleased = "Released"

// depart ends svc, which has the finalizer and is being deleted, or has become of another type.
func (s *services) depart(ctx context.Context, svc *corev1.Service, m *memory) (reconcile.Result, error) {
	r := s.rules.Read(svc)
	patch, err := departurePatch(svc, r, time.Now())
	if err != nil {
		return reconcile.Result{}, err
	}
	if patch != nil {
		if err := s.status(ctx, svc, m, patch); err != nil {
			return s.wait(r.Key(), err)
		}
		return later, nil
	}
	waits := s.allocations.depart(r)
	if len(waits) == 0 {
		done, err := s.bind(ctx, svc, m, false)
		if err == nil && done.RequeueAfter == 0 && svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
			s.forget(client.ObjectKeyFromObject(svc), "")
		}
		return done, err
	}
	if why := s.allocations.faults(waits); why != "" && m.isNewRefusal(why) {
		s.event(svc, corev1.EventTypeWarning, "ReleasePending", "the Service is kept until its addresses are released: "+why+
			"; to give them up without that: kubectl patch service -n "+svc.Namespace+" "+svc.Name+` --type=json -p '[{"op":"remove","path":"/metadata/finalizers"}]'`)
	}
	return reconcile.Result{RequeueAfter: departurePause}, nil
}

// departurePatch returns the patch with which the Service of r gives up its addresses, or nil if its status
// shows that already.
func departurePatch(svc *corev1.Service, r service.Request, now time.Time) ([]byte, error) {
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer || r.Owner == service.Anothers {
		return service.ReleasePatch(svc)
	}
	return service.Result{Reason: reasonReleased, Message: "the Service is being deleted: its addresses go back to the IPAM system, and then the finalizer " +
		service.Finalizer + " is removed"}.Patch(svc, now)
}

// departurePause is how often a Service that waits for its finalizer is looked at. Usually the
// release itself wakes it.
const departurePause = 5 * time.Second

// faults says why the backends of groups do not work, or "".
func (l *allocations) faults(groups []string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var texts []string
	for _, group := range groups {
		if fault := l.cluster.Claims.Fault(group); fault != nil {
			texts = append(texts, fmt.Sprintf("ServiceGroup %q: %s", group, fault.Message))
		}
	}
	return strings.Join(texts, "; ")
}

// RemoveFinalizers removes the finalizers of PureLB from all Services and ServiceGroups, because no
// allocator will do it any more. The addresses stay in the IPAM system.
func RemoveFinalizers(ctx context.Context, c client.Client) error {
	return errors.Join(
		removeFinalizer(ctx, c, service.Finalizer, schema.GroupVersionKind{Version: "v1", Kind: "ServiceList"}),
		removeFinalizer(ctx, c, config.GroupFinalizer, v2.GroupVersion.WithKind("ServiceGroupList")),
	)
}

// removeFinalizer removes a finalizer from all objects of a kind, if the API server knows that kind.
func removeFinalizer(ctx context.Context, c client.Client, finalizer string, kind schema.GroupVersionKind) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	if err := c.List(ctx, list); err != nil {
		if meta.IsNoMatchError(err) {
			return nil
		}
		return fmt.Errorf("list %s: %w", kind.Kind, err)
	}
	for i := range list.Items {
		o := &list.Items[i]
		o.SetGroupVersionKind(kind.GroupVersion().WithKind(strings.TrimSuffix(kind.Kind, "List")))
		for controllerutil.ContainsFinalizer(o, finalizer) {
			err := setFinalizer(ctx, c, o, finalizer, false)
			if err == nil || apierrors.IsNotFound(err) {
				break
			}
			if !apierrors.IsConflict(err) {
				return err
			}
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); apierrors.IsNotFound(err) {
				break
			} else if err != nil {
				return fmt.Errorf("read %s/%s: %w", o.Namespace, o.Name, err)
			}
		}
	}
	return nil
}
