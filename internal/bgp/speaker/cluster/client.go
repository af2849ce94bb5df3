package cluster

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/kube"
)

// Clients are for the few kinds of objects that the speaker reads and writes. Clients for all kinds
// of Kubernetes take more memory than the BGP server.
type Clients struct {
	Core, Apps, Discovery, BGP, PureLB rest.Interface
}

// NewClients returns clients of the API server of config. The API server may be away.
func NewClients(config *rest.Config) (Clients, error) {
	var all Clients
	for _, one := range []struct {
		client *rest.Interface
		group  schema.GroupVersion
		add    func(*runtime.Scheme) error
	}{
		{&all.Core, corev1.SchemeGroupVersion, corev1.AddToScheme},
		{&all.Apps, appsv1.SchemeGroupVersion, appsv1.AddToScheme},
		{&all.Discovery, discoveryv1.SchemeGroupVersion, discoveryv1.AddToScheme},
		{&all.BGP, bgpv1.GroupVersion, bgpv1.AddToScheme},
		{&all.PureLB, v2.GroupVersion, v2.AddToScheme},
	} {
		var err error
		if *one.client, err = kube.Client(config, one.group, one.add); err != nil {
			return Clients{}, err
		}
	}
	return all, nil
}

// NodeStatuses is the resource of BGPNodeStatuses.
const NodeStatuses = "bgpnodestatuses"
