package speaker

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/apiserver"
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
	var all Clients
	for _, one := range []struct {
		client *rest.Interface
		to     schema.GroupVersion
	}{
		{&all.core, corev1.SchemeGroupVersion}, {&all.apps, appsv1.SchemeGroupVersion}, {&all.discovery, discoveryv1.SchemeGroupVersion},
		{&all.bgp, bgpv1.GroupVersion}, {&all.purelb, v2.GroupVersion},
	} {
		var err error
		if *one.client, err = apiserver.Client(config, scheme, one.to); err != nil {
			return Clients{}, err
		}
	}
	return all, nil
}
