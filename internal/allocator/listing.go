package allocator

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// newInformer makes an informer for the cache.
func newInformer(from cache.ListerWatcher, o runtime.Object, resync time.Duration, by cache.Indexers) cache.SharedIndexInformer {
	if _, ok := o.(*corev1.Service); ok {
		from = current(from)
	}
	return cache.NewSharedIndexInformer(from, o, resync, by)
}

// listing lists Services as the API server has them at that time. An informer is
// content at first with what any of its replicas has had at some time (resource
// version 0), and later with what there was when its watch broke off: in pages, the
// API server takes that to the letter. It asks for pages, which takes half the time
// of a stream of all Services (WatchList), and keeps only what is wanted of each.
type listing struct{ *cache.ListWatch }

func current(from cache.ListerWatcher) listing {
	of := cache.ToListerWatcherWithContext(from)
	return listing{&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.ResourceVersion = ""
			found, err := of.ListWithContext(ctx, o)
			if list, ok := found.(*corev1.ServiceList); ok && err == nil {
				for i := range list.Items {
					list.Items[i] = *slimService(&list.Items[i])
				}
			}
			return found, err
		},
		WatchFuncWithContext: of.WatchWithContext,
	}}
}

// IsWatchListSemanticsUnSupported tells the informer to list.
func (listing) IsWatchListSemanticsUnSupported() bool { return true }
