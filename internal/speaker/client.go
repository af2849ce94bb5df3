package speaker

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
)

// Clients reach the few kinds of objects that the speaker reads and writes. They know no
// other kinds: the clients for all of Kubernetes take more memory than the BGP server.
type Clients struct {
	core, apps, discovery, bgp, purelb rest.Interface
}

// NewClients returns clients of the API server of config. The API server may be away.
func NewClients(config *rest.Config) (Clients, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, discoveryv1.AddToScheme, bgpv1.AddToScheme, v2.AddToScheme} {
		if err := add(scheme); err != nil {
			return Clients{}, err
		}
	}
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	codecs := serializer.NewCodecFactory(scheme)
	client := func(path string, version schema.GroupVersion, contentType string) (rest.Interface, error) {
		c := rest.CopyConfig(config)
		c.APIPath, c.GroupVersion, c.NegotiatedSerializer = path, &version, codecs.WithoutConversion()
		c.ContentType, c.AcceptContentTypes = contentType, contentType+",application/json"
		return rest.RESTClientFor(c)
	}
	var all Clients
	var err error
	if all.core, err = client("/api", corev1.SchemeGroupVersion, "application/vnd.kubernetes.protobuf"); err != nil {
		return Clients{}, err
	}
	if all.apps, err = client("/apis", appsv1.SchemeGroupVersion, "application/vnd.kubernetes.protobuf"); err != nil {
		return Clients{}, err
	}
	if all.discovery, err = client("/apis", discoveryv1.SchemeGroupVersion, "application/vnd.kubernetes.protobuf"); err != nil {
		return Clients{}, err
	}
	if all.bgp, err = client("/apis", bgpv1.GroupVersion, "application/json"); err != nil {
		return Clients{}, err
	}
	all.purelb, err = client("/apis", v2.GroupVersion, "application/json")
	return all, err
}
