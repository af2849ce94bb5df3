package events

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// To returns a Sink that writes to the API server. core is a client of the core group.
func To(core rest.Interface) Sink { return server{core} }

type server struct{ client rest.Interface }

func (s server) Create(ctx context.Context, e *corev1.Event) (*corev1.Event, error) {
	return do(ctx, s.client.Post().Namespace(e.Namespace).Resource("events").Body(e))
}

func (s server) Patch(ctx context.Context, e *corev1.Event, patch []byte) (*corev1.Event, error) {
	return do(ctx, s.client.Patch(types.StrategicMergePatchType).Namespace(e.Namespace).Resource("events").Name(e.Name).Body(patch))
}

func do(ctx context.Context, request *rest.Request) (*corev1.Event, error) {
	var written corev1.Event
	return &written, request.Do(ctx).Into(&written)
}
