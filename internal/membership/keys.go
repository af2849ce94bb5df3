package membership

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/config"
)

// keyring holds the keys that were last found in the Secret.
type keyring struct {
	// filled is closed when there are keys. changed signals new keys.
	filled, changed chan struct{}

	mu   sync.Mutex
	list [][]byte
}

func newKeyring() *keyring {
	return &keyring{filled: make(chan struct{}), changed: make(chan struct{}, 1)}
}

func (r *keyring) keys() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list
}

// offer stores keys unless the ring has keys already.
func (r *keyring) offer(keys [][]byte) {
	if r.keys() == nil {
		r.put(keys)
	}
}

func (r *keyring) put(keys [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.list == nil {
		close(r.filled)
	}
	r.list = keys
	backoff.Poke(r.changed)
}

// watchKeys fills ring from the Secret until ctx is done. When the Secret is deleted or
// invalid, the current keys stay in use.
func (m *Membership) watchKeys(ctx context.Context, ring *keyring) error {
	w := &keyWatch{Membership: m, ring: ring}
	informer, err := w.informer(ctx)
	if err != nil {
		return fmt.Errorf("watch the gossip key: %w", err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { informer.RunWithContext(ctx) })
	if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) && len(informer.GetStore().List()) == 0 {
		w.without(ctx, errors.New("there is no such Secret"))
	}
	<-ctx.Done()
	return nil
}

// keyWatch watches the Secret, and logs each problem with it once.
type keyWatch struct {
	*Membership
	ring *keyring

	mu   sync.Mutex
	said string
}

func (w *keyWatch) informer(ctx context.Context) (cache.SharedIndexInformer, error) {
	name := fields.OneTermEqualSelector("metadata.name", w.Secret).String()
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = name
			return w.Secrets.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = name
			return w.Secrets.Watch(ctx, o)
		},
	}, &corev1.Secret{}, 0, cache.Indexers{})
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.found(ctx, o) },
		UpdateFunc: func(_, o any) { w.found(ctx, o) },
		DeleteFunc: func(any) { w.without(ctx, errors.New("the Secret is gone")) },
	})
	if err != nil {
		return nil, err
	}
	return informer, informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if !w.has() { // an agent that has keys waits for the end of the interruption
			w.without(ctx, err)
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	})
}

func (w *keyWatch) has() bool { return w.ring.keys() != nil }

// found stores the keys of a Secret.
func (w *keyWatch) found(ctx context.Context, o any) {
	secret, ok := o.(*corev1.Secret)
	if !ok {
		return
	}
	keys, err := config.GossipKeys(secret.Data)
	if err != nil {
		w.without(ctx, err)
		return
	}
	w.say(ctx, "")
	w.ring.put(keys)
}

// without records the reason why the Secret has no keys. If the keyring is empty too, the agent
// uses only the Leases.
func (w *keyWatch) without(ctx context.Context, err error) {
	w.say(ctx, err.Error())
	if !w.has() {
		w.relyOnLeases()
	}
}

// say logs problem, except if problem equals the last logged one.
func (w *keyWatch) say(ctx context.Context, problem string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if problem != "" && problem != w.said {
		w.Log.WarnContext(ctx, "gossipKeyMissing", "secret", w.Secret, "error", problem)
	}
	w.said = problem
}
