package allocate

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/config"
)

const (
	// gossipKeySize is the number of bytes of the key, an AES-256 key.
	gossipKeySize = 32
	// gossipKeyCheck is how often the allocator checks that the Secret still exists.
	// gossipKeyRetry is the pause after such a check has failed.
	gossipKeyCheck = 5 * time.Minute
	gossipKeyRetry = 5 * time.Second
)

// gossipKey makes the Secret with the key of the agents' gossip if there is none. It never
// changes an existing Secret.
type gossipKey struct {
	secrets typedcorev1.SecretInterface
	name    string
	log     *slog.Logger
}

// Start implements manager.Runnable. Only the leader makes a key.
func (k *gossipKey) Start(ctx context.Context) error {
	if k.name == "" {
		return nil
	}
	loop := backoff.Loop{
		Schedule: backoff.Schedule{Every: gossipKeyCheck, Retry: backoff.Pauses{Min: gossipKeyRetry, Max: gossipKeyRetry}},
		Do:       func(ctx context.Context) (time.Time, error) { return time.Time{}, k.ensure(ctx) },
		Failed: func(ctx context.Context, err error) {
			k.log.WarnContext(ctx, "gossipKeyNotMade", "secret", k.name, "error", err)
		},
	}
	return loop.Run(ctx)
}

// ensure makes the Secret if there is none. Two allocators may do this at once: the API
// server accepts one of the Secrets.
func (k *gossipKey) ensure(ctx context.Context) error {
	_, err := k.secrets.Get(ctx, k.name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	key := make([]byte, gossipKeySize)
	if _, err := rand.Read(key); err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	_, err = k.secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: k.name, Labels: map[string]string{"app": "purelb", "app.kubernetes.io/name": "purelb"}},
		Type:       corev1.SecretTypeOpaque,
		Data:       config.GossipSecret(key),
	}, metav1.CreateOptions{FieldManager: component})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err == nil {
		k.log.InfoContext(ctx, "gossipKeyMade", "secret", k.name)
	}
	return err
}
