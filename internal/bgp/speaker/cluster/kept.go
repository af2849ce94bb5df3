package cluster

import (
	"net/netip"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/nodes/ending"
	"purelb.io/purelb/internal/service"
)

// The functions below say which part of each object the speaker keeps, and when two of these
// parts are equal.

func keepConfig(c *bgpv1.BGPConfiguration) (bgpv1.BGPConfiguration, bool) {
	kept := *c
	kept.ManagedFields, kept.Status = nil, bgpv1.BGPConfigurationStatus{}
	return kept, true
}

func sameConfig(a, b bgpv1.BGPConfiguration) bool {
	return sameGeneration(&a.ObjectMeta, &b.ObjectMeta) && a.DeletionTimestamp.IsZero() == b.DeletionTimestamp.IsZero()
}

func keepNode(n *corev1.Node) (intent.NodeFacts, bool) {
	facts := intent.NodeFacts{UID: n.UID, DrainMark: ending.Marked(n)}
	facts.Node = peering.Node{Name: n.Name, Labels: n.Labels, Annotations: n.Annotations}
	for _, a := range n.Status.Addresses {
		ip, err := netip.ParseAddr(a.Address)
		switch {
		case err != nil:
		case a.Type == corev1.NodeInternalIP:
			facts.InternalIPs = append(facts.InternalIPs, ip.Unmap())
		case a.Type == corev1.NodeExternalIP:
			facts.ExternalIPs = append(facts.ExternalIPs, ip.Unmap())
		}
	}
	return facts, true
}

func keepGroup(g *v2.ServiceGroup) (v2.ServiceGroup, bool) {
	kept := *g
	kept.ManagedFields, kept.Annotations = nil, nil
	return kept, true
}

// sameGroup also compares whether the groups are accepted or refused.
func sameGroup(a, b v2.ServiceGroup) bool {
	return sameGeneration(&a.ObjectMeta, &b.ObjectMeta) && config.Standing(a) == config.Standing(b)
}

func keepAgent(a *v2.LBNodeAgent) (v2.LBNodeAgent, bool) {
	kept := *a
	kept.ManagedFields, kept.Annotations = nil, nil
	return kept, true
}

func sameAgent(a, b v2.LBNodeAgent) bool { return sameGeneration(&a.ObjectMeta, &b.ObjectMeta) }

func sameGeneration(a, b *metav1.ObjectMeta) bool {
	return a.UID == b.UID && a.Generation == b.Generation
}

// routeAnnotations are the annotations that set route attributes.
var routeAnnotations = []string{
	peering.AnnotationCommunities, peering.AnnotationLargeCommunities, peering.AnnotationMED, peering.AnnotationLocalPreference,
}

// keepService keeps the Services that change what the speaker announces.
func keepService(svc *corev1.Service) (intent.ServiceFacts, bool) {
	facts, some := keepManaged(svc)
	return facts, some && (len(facts.Annotations) > 0 || facts.Recorded || facts.Restricted)
}

// keepManaged keeps the Services that have addresses.
func keepManaged(svc *corev1.Service) (intent.ServiceFacts, bool) {
	given, _ := service.RecordOf(svc)
	facts := intent.ServiceFacts{
		Name: svc.Namespace + "/" + svc.Name, UID: svc.UID, Annotations: map[string]string{}, Addresses: service.Emptied(svc),
		Recorded: len(given.Objects) > 0, From: given.From, Restricted: given.Restricted != "",
		Local: svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal,
	}
	for _, name := range routeAnnotations {
		if value, ok := svc.Annotations[name]; ok {
			facts.Annotations[name] = value
		}
	}
	for _, i := range svc.Status.LoadBalancer.Ingress {
		if ip, err := netip.ParseAddr(i.IP); err == nil {
			facts.Addresses = append(facts.Addresses, ip.Unmap())
		}
	}
	return facts, len(facts.Addresses) > 0
}

// addressFamilies are the families of the address types of EndpointSlices. Slices of the third
// type, host names, get no packets.
var addressFamilies = map[discoveryv1.AddressType]addr.Family{discoveryv1.AddressTypeIPv4: addr.V4, discoveryv1.AddressTypeIPv6: addr.V6}

// keepSlice keeps the endpoints on a node. A missing condition means ready.
func keepSlice(node string) func(*discoveryv1.EndpointSlice) (intent.SliceFacts, bool) {
	return func(slice *discoveryv1.EndpointSlice) (intent.SliceFacts, bool) {
		family, ok := addressFamilies[slice.AddressType]
		facts := intent.SliceFacts{Service: slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName], Family: family}
		for _, e := range slice.Endpoints {
			switch {
			case e.NodeName == nil || *e.NodeName != node:
			case e.Conditions.Ready == nil || *e.Conditions.Ready:
				facts.Ready = append(facts.Ready, e.Addresses...)
			default:
				facts.Unready = append(facts.Unready, e.Addresses...)
			}
		}
		return facts, ok && len(facts.Ready)+len(facts.Unready) > 0
	}
}

func keepSecret(secret *corev1.Secret) (map[string][]byte, bool) { return secret.Data, true }

// same compares facts of which every part counts.
func same[T any](a, b T) bool { return reflect.DeepEqual(a, b) }
