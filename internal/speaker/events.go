package speaker

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
)

// eventAttributesIgnored is the reason of events about wrong route attributes on a Service or
// a group.
const eventAttributesIgnored = "RouteAttributesIgnored"

// objections holds the last event text of each object, so that the speaker writes no event
// twice.
type objections map[string]string

// tell writes an event on each object whose route attributes are wrong.
func (o *objections) tell(events Events, node string, in Input) {
	for _, key := range slices.Sorted(maps.Keys(in.Complaints)) {
		if text := in.Complaints[key]; (*o)[key] != text {
			about := in.About[key]
			events.Eventf(&about, corev1.EventTypeWarning, eventAttributesIgnored, "Node %s leaves out what cannot be read: %s", node, text)
		}
	}
	*o = in.Complaints
}

// serviceRef returns the reference to a Service for an event.
func serviceRef(s ServiceFacts) corev1.ObjectReference {
	namespace, name, _ := strings.Cut(s.Name, "/")
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: namespace, Name: name, UID: s.UID}
}

// groupRef returns the reference to a group for an event.
func groupRef(g v2.ServiceGroup) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: v2.GroupVersion.String(), Kind: "ServiceGroup", Namespace: g.Namespace, Name: g.Name, UID: g.UID,
	}
}
