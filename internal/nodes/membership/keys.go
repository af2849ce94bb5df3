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
	// problem is the last problem with the Secret, or "".
	problem string
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

// note sets the problem with the Secret, or "" if all is well. It reports whether that is another problem.
func (r *keyring) note(problem string) (other bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	other = problem != "" && problem != r.problem
	r.problem = problem
	return other
}

// watchKeys fills ring from the Secret until ctx is done. When the Secret is deleted or
// invalid, the current keys stay in use.
func (m *Membership) watchKeys(ctx context.Context, ring *keyring) error {
	named := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", m.Secret).String()
	}
	data := func(s *corev1.Secret) (map[string][]byte, bool) { return s.Data, true }
	same := func(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, slices.Equal[[]byte]) }
	var w *kube.Watch[map[string][]byte]
	w = kube.NewWatch(kube.Selected(m.Secrets, named), data, same, func(before, after *map[string][]byte) {
		switch kept, synced := w.All(); {
		case after != nil:
			m.foundKeys(ctx, ring, *after)
		case before != nil:
			m.withoutKeys(ctx, ring, errors.New("the Secret is gone"))
		case synced && len(kept) == 0:
			m.withoutKeys(ctx, ring, errors.New("there is no such Secret"))
		}
	})
	w.Failed = func(ctx context.Context, err error) {
		if ring.keys() == nil { // an agent that has keys waits for the end of the interruption
			m.withoutKeys(ctx, ring, err)
		}
	}
	w.Run(ctx)
	return nil
}

// foundKeys stores the keys of a Secret.
func (m *Membership) foundKeys(ctx context.Context, ring *keyring, data map[string][]byte) {
	keys, err := config.GossipKeys(data)
	if err != nil {
		m.withoutKeys(ctx, ring, err)
		return
	}
	ring.note("")
	m.remember(ctx, keys)
	ring.put(keys)
}

// withoutKeys records the reason why the Secret has no keys, and logs it once. If the keyring is empty too, the
// agent uses only the Leases.
func (m *Membership) withoutKeys(ctx context.Context, ring *keyring, err error) {
	if ring.note(err.Error()) {
		m.Log.WarnContext(ctx, "gossipKeyMissing", "secret", m.Secret, "error", err)
	}
	if ring.keys() == nil {
		m.relyOnLeases()
	}
}
