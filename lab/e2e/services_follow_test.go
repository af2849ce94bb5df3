package e2e

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// following calls a function with each state of the test's Services in the API server, one after
// another.
type following struct {
	cancel context.CancelFunc
	ended  chan struct{}
	errs   []error
}

// followServices begins with the current states. Only one goroutine at a time calls see.
func (w *world) followServices(see func(watch.EventType, *corev1.Service)) *following {
	w.t.Helper()
	watching, err := lab.watching()
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	f := &following{cancel: cancel, ended: make(chan struct{})}
	var list corev1.ServiceList
	if err := w.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		w.t.Fatal(err)
	}
	for i := range list.Items {
		see(watch.Added, &list.Items[i])
	}
	// The API server ends a watch that is too slow. The next watch continues where the last one
	// ended.
	events, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return watching.Watch(ctx, &corev1.ServiceList{}, client.InNamespace(namespace), &client.ListOptions{Raw: &options})
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer close(f.ended)
		for e := range events.ResultChan() {
			if svc, ok := e.Object.(*corev1.Service); ok {
				see(e.Type, svc)
			} else if e.Type == watch.Error {
				f.errs = append(f.errs, fmt.Errorf("the watch fails: %w", apierrors.FromObject(e.Object)))
			}
		}
		if ctx.Err() == nil {
			f.errs = append(f.errs, errors.New("the watch ended early"))
		}
	}()
	return f
}

// end ends the watch. If it returns an error, states may be missing.
func (f *following) end() error {
	f.cancel()
	<-f.ended
	return errors.Join(f.errs...)
}
