package allocate_test

import (
	"encoding/base64"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/internal/allocate"
)

func TestGossipKeyIsRandomAndMadeOnce(t *testing.T) {
	w := idleWorld(t)
	start := func(name string) (*running, *corev1.Secret) {
		r := w.allocator(func(o *allocate.Options) { o.GossipSecret = name })
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
		w.until(func() bool { return w.client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret) == nil })
		if bytes, err := base64.StdEncoding.DecodeString(string(secret.Data["key"])); err != nil || len(bytes) != 32 {
			t.Errorf("the key is %q: %v", secret.Data["key"], err)
		}
		return r, secret
	}
	r, first := start("first")
	r.stop()
	r, second := start("second")
	r.stop()
	if string(first.Data["key"]) == string(second.Data["key"]) {
		t.Error("two Secrets have the same key")
	}
	start("first")
	w.allocate(balancer("svc"), "192.0.2.1")
	if made := first.ResourceVersion; fetch(w, first).ResourceVersion != made {
		t.Error("the second start replaced the key")
	}
}
