package speaker

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
)

// eventAttributesIgnored is the reason of events about what a Service or a group
// says of its routes.
const eventAttributesIgnored = "RouteAttributesIgnored"

// objections are what was told to objects, so that nothing is told twice.
type objections map[string]string

// tell tells objects what is wrong with what they say of their routes.
func (o *objections) tell(events Events, node string, in Input) {
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
