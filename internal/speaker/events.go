package speaker

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// sink is where events are written.
type sink struct{ client rest.Interface }

func (s sink) Create(e *corev1.Event) (*corev1.Event, error) {
	return event(s.client.Post().Namespace(e.Namespace).Resource("events").Body(e))
}

func (s sink) Update(e *corev1.Event) (*corev1.Event, error) {
	return event(s.client.Put().Namespace(e.Namespace).Resource("events").Name(e.Name).Body(e))
}

func (s sink) Patch(e *corev1.Event, patch []byte) (*corev1.Event, error) {
	return event(s.client.Patch(types.StrategicMergePatchType).Namespace(e.Namespace).Resource("events").Name(e.Name).Body(patch))
}

func event(request *rest.Request) (*corev1.Event, error) {
	ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
	defer cancel()
	var written corev1.Event
	return &written, request.Do(ctx).Into(&written)
}
