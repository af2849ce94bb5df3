package apiserver

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

var (
	isLoadBalancer = fields.OneTermEqualSelector("spec.type", string(corev1.ServiceTypeLoadBalancer)).String()
	// errOtherPages makes the caller list anew, without pages.
	errOtherPages     = apierrors.NewResourceExpired("the API server refuses to select Services by their type, and has selected those of the pages before")
	errNoInitialState = errors.New("a watch of Services does not begin with their state before Kubernetes 1.31")
)

// LoadBalancers lists and watches the Services of type LoadBalancer. The API server selects them.
// Before Kubernetes 1.31 the API server cannot, and refuses the request. LoadBalancers then asks
// for all Services, and selects as a later API server does. If a Service gets another type,
// LoadBalancers reports a deletion. The deleted object is the present Service with its former
// type.
//
// Each list asks the API server for the selection again, unless it follows a refused watch: the
// control plane may have been upgraded since.
//
// The requests of all must not select fields.
func LoadBalancers(all toolscache.ListerWatcher, log *slog.Logger) *toolscache.ListWatch {
	l := &loadBalancers{all: toolscache.ToListerWatcherWithContext(all), log: log}
	return &toolscache.ListWatch{ListWithContextFunc: l.list, WatchFuncWithContext: l.watch}
}

type loadBalancers struct {
	all toolscache.ListerWatcherWithContext
	log *slog.Logger
	// logged lets a refusal be logged once.
	logged sync.Once

	mu sync.Mutex
	// refused says that the API server refused the selector. listed says that a list of all
	// Services followed.
	refused, listed bool
	// known are the Services that had the type since the last list. It is empty unless the API
	// server refused the selector.
	known map[types.NamespacedName]bool
}

func (l *loadBalancers) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if l.selects(o.Continue == "") {
		selected := o
		selected.FieldSelector = isLoadBalancer
		found, err := l.all.ListWithContext(ctx, selected)
		if !l.refuses(ctx, err) {
			return found, err
		}
		if o.Continue != "" {
			return nil, errOtherPages
		}
	}
	found, err := l.all.ListWithContext(ctx, o)
	if services, ok := found.(*corev1.ServiceList); ok && err == nil {
		l.keep(services)
	}
	return found, err
}

func (l *loadBalancers) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if l.selects(false) {
		o.FieldSelector = isLoadBalancer
		events, err := l.all.WatchWithContext(ctx, o)
		l.refuses(ctx, err) // A list follows this error.
		return events, err
	}
	if o.SendInitialEvents != nil {
		return nil, errNoInitialState
	}
	events, err := l.all.WatchWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	return l.selectEvents(events), nil
}

// selects reports whether to ask the API server for the selection. newList says that a list
// begins.
func (l *loadBalancers) selects(newList bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if newList {
		l.refused = l.refused && !l.listed
		l.listed, l.known = false, map[types.NamespacedName]bool{}
	}
	return !l.refused
}

// refuses reports whether err says that the API server does not know the selector, and
// remembers that.
func (l *loadBalancers) refuses(ctx context.Context, err error) bool {
	if !apierrors.IsBadRequest(err) {
		return false
	}
	l.logged.Do(func() {
		l.log.WarnContext(ctx, "selectionRefused", "error", err, "effect", "all Services are read")
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = true
	return true
}

// keep removes the other Services from a page of a list.
func (l *loadBalancers) keep(page *corev1.ServiceList) {
	page.Items = slices.DeleteFunc(page.Items, func(s corev1.Service) bool { return s.Spec.Type != corev1.ServiceTypeLoadBalancer })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listed = true
	for i := range page.Items {
		l.known[nameOf(&page.Items[i])] = true
	}
}

// selectEvents returns a watch of the selected events of all. It ends when all ends or when it is
// stopped. A watch of watch.Filter would not end while an event waits for a reader.
func (l *loadBalancers) selectEvents(all watch.Interface) watch.Interface {
	events := make(chan watch.Event)
	selected := watch.NewProxyWatcher(events)
	go func() {
		defer close(events)
		defer all.Stop()
		for {
			select {
			case <-selected.StopChan():
				return
			case e, more := <-all.ResultChan():
				if !more || !l.pass(e, events, selected.StopChan()) {
					return
				}
			}
		}
	}()
	return selected
}

// pass sends the event for e, if there is one. It returns false if the reader stopped.
func (l *loadBalancers) pass(e watch.Event, to chan<- watch.Event, stopped <-chan struct{}) bool {
	e, selected := l.selectEvent(e)
	if !selected {
		return true
	}
	select {
	case to <- e:
		return true
	case <-stopped:
		return false
	}
}

// selectEvent translates an event of a watch of all Services into an event of a watch of Services
// of type LoadBalancer. It returns false if there is no such event.
//
// A Service that got another type stays known until it is deleted. So an event may come twice, but
// is not lost if the first one was never read.
func (l *loadBalancers) selectEvent(e watch.Event) (watch.Event, bool) {
	svc, ok := e.Object.(*corev1.Service)
	if !ok || e.Type == watch.Bookmark || e.Type == watch.Error {
		return e, true
	}
	name := nameOf(svc)
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.known[name]
	if e.Type == watch.Deleted {
		delete(l.known, name)
	}
	if svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
		if e.Type != watch.Deleted {
			l.known[name] = true
		}
		return e, true
	}
	if !known {
		return e, false
	}
	gone := *svc
	gone.Spec.Type = corev1.ServiceTypeLoadBalancer
	return watch.Event{Type: watch.Deleted, Object: &gone}, true
}

func nameOf(svc *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}
}
