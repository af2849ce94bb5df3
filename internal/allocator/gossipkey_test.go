package allocator

import (
	"context"
	"encoding/base64"
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"purelb.io/purelb/internal/testing/apitest"
)

func TestGossipKeyIsRandomAndMadeOnce(t *testing.T) {
	clients, err := kubernetes.NewForConfig(apitest.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	key := func(namespace string) string {
		secrets := clients.CoreV1().Secrets(namespace)
		k := &gossipKey{secrets: secrets, name: "purelb-gossip", log: slog.New(slog.DiscardHandler)}
		if err := k.ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		s, err := secrets.Get(t.Context(), "purelb-gossip", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return string(s.Data["key"])
	}
	here, there := apitest.Namespace(t), apitest.Namespace(t)
	first := key(here)
	if bytes, err := base64.StdEncoding.DecodeString(first); err != nil || len(bytes) != 32 {
		t.Errorf("the key is %q: %v", first, err)
	}
	if key(here) != first {
		t.Error("the second start replaced the key")
	}
	if key(there) == first {
		t.Error("two clusters have the same key")
	}
}

func TestExistingGossipKeyIsLeftAlone(t *testing.T) {
	clients, err := kubernetes.NewForConfig(apitest.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	secrets := clients.CoreV1().Secrets(apitest.Namespace(t))
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Data: map[string][]byte{"key": []byte("theirs")}}
	made, err := secrets.Create(t.Context(), theirs, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := (&gossipKey{secrets: secrets, name: "mine"}).ensure(context.Background()); err != nil {
		t.Fatal(err)
	}
	if now, err := secrets.Get(t.Context(), "mine", metav1.GetOptions{}); err != nil || now.ResourceVersion != made.ResourceVersion {
		t.Errorf("the allocator wrote the key: %v", err)
	}
}
