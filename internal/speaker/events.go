package speaker

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	v2 "purelb.io/purelb/api/purelb/v2"
)

// eventAttributesIgnored is the reason of events about what a Service or a group
// says of its routes.
const eventAttributesIgnored = "RouteAttributesIgnored"

// objections are what was told to objects, so that nothing is told twice.
type objections map[string]string

// tell tells objects what is wrong with what they say of their routes.
func (o *objections) tell(events record.EventRecorder, node string, in Input) {
	for _, key := range slices.Sorted(maps.Keys(in.Complaints)) {
		if text := in.Complaints[key]; (*o)[key] != text {
			about := in.About[key]
			events.Eventf(&about, corev1.EventTypeWarning, eventAttributesIgnored, "Node %s leaves out what cannot be read: %s", node, text)
		}
	}
	*o = in.Complaints
}

// serviceRef is a Service as an event names it.
func serviceRef(s ServiceFacts) corev1.ObjectReference {
	namespace, name, _ := strings.Cut(s.Name, "/")
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: namespace, Name: name, UID: s.UID}
}

// groupRef is a group as an event names it.
func groupRef(g v2.ServiceGroup) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: v2.GroupVersion.String(), Kind: "ServiceGroup", Namespace: g.Namespace, Name: g.Name, UID: g.UID,
	}
}

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
