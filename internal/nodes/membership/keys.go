package membership

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/kube"
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
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.list == nil {
		r.replace(keys)
	}
}

// put stores keys.
func (r *keyring) put(keys [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replace(keys)
}

func (r *keyring) replace(keys [][]byte) {
	if r.list == nil {
		close(r.filled)
	}
	r.list = keys
	backoff.Poke(r.changed)
}

// watchKeys fills ring from the Secret until ctx is done. When the Secret is deleted or
// invalid, the current keys stay in use.
func (m *Membership) watchKeys(ctx context.Context, ring *keyring) error {
	k := &keyWatch{Membership: m, ring: ring}
	named := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", m.Secret).String()
	}
	data := func(s *corev1.Secret) (map[string][]byte, bool) { return s.Data, true }
	same := func(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, slices.Equal[[]byte]) }
	var w *kube.Watch[map[string][]byte]
	w = kube.NewWatch(kube.Selected(m.Secrets, named), data, same, func(before, after *map[string][]byte) {
		switch kept, synced := w.All(); {
		case after != nil:
			k.found(ctx, *after)
		case before != nil:
			k.without(ctx, errors.New("the Secret is gone"))
		case synced && len(kept) == 0:
			k.without(ctx, errors.New("there is no such Secret"))
		}
	})
	w.Failed = func(ctx context.Context, err error) {
		if !k.has() { // an agent that has keys waits for the end of the interruption
			k.without(ctx, err)
		}
	}
	w.Run(ctx)
	return nil
}

// keyWatch follows the Secret, and logs each problem with it once.
type keyWatch struct {
	*Membership
	ring *keyring

	mu     sync.Mutex
	logged string // the last problem
}

func (w *keyWatch) has() bool { return w.ring.keys() != nil }

// found stores the keys of a Secret.
func (w *keyWatch) found(ctx context.Context, data map[string][]byte) {
	keys, err := config.GossipKeys(data)
	if err != nil {
		w.without(ctx, err)
		return
	}
	w.logOnce(ctx, "")
	w.remember(ctx, keys)
	w.ring.put(keys)
}

// without records the reason why the Secret has no keys. If the keyring is empty too, the agent
// uses only the Leases.
func (w *keyWatch) without(ctx context.Context, err error) {
	w.logOnce(ctx, err.Error())
	if !w.has() {
		w.relyOnLeases()
	}
}

// logOnce logs problem unless it is the last one again. An empty problem means that all is well.
func (w *keyWatch) logOnce(ctx context.Context, problem string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if problem != "" && problem != w.logged {
		w.Log.WarnContext(ctx, "gossipKeyMissing", "secret", w.Secret, "error", problem)
	}
	w.logged = problem
}
