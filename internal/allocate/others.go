package allocate

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/internal/kube"
	"purelb.io/purelb/internal/service"
)

// other is what the allocator keeps of a Service that is not of type LoadBalancer. It keeps only
// Services that matter to it: those with addresses in spec.externalIPs, and those that were of type
// LoadBalancer and still have what PureLB wrote. There may be ten thousand others.
type other struct {
	name     types.NamespacedName
	withheld []netip.Addr
	// leftover says that the Service has something that PureLB wrote.
	leftover bool
}

func readOther(svc *corev1.Service) (other, bool) {
	_, branded := svc.Annotations[service.AnnotationAllocatedBy]
	o := other{client.ObjectKeyFromObject(svc), withheld(svc), branded || service.Bound(svc)}
	return o, o.leftover || len(o.withheld) > 0
}

// withheld returns the addresses that no other Service gets because of svc, which is not of type
// LoadBalancer: those in spec.externalIPs, and those that PureLB gave to it. If its type changes back
// before the allocator has removed the record, agents announce these at once.
func withheld(svc *corev1.Service) []netip.Addr {
	return append(service.External(svc), service.Emptied(svc)...)
}

func (o other) same(p other) bool {
	return o.leftover == p.leftover && slices.Equal(o.withheld, p.withheld)
}

// watchOthers returns a watch of the Services that are not of type LoadBalancer. It queues those that
// change, so that the loop of Services reads them.
func watchOthers(cfg *rest.Config, q *queue) (*kube.Watch[other], error) {
	core, err := kube.Client(cfg, corev1.SchemeGroupVersion, corev1.AddToScheme)
	if err != nil {
		return nil, fmt.Errorf("make the client of other services: %w", err)
	}
	source := toolscache.NewListWatchFromClient(core, "services", metav1.NamespaceAll,
		fields.OneTermNotEqualSelector("spec.type", string(corev1.ServiceTypeLoadBalancer)))
	return kube.NewWatch(source, readOther, other.same, func(before, after *other) {
		for _, o := range []*other{before, after} {
			if o != nil {
				q.add(o.name)
			}
		}
	}), nil
}
