package allocate

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/service"
)

func (m *model) anyone() ipam.Owner {
	names := []string{"red/a", "red/b", "blue/a", "red/c", "red/d", "blue/b"}
	if m.backed {
		names = names[:3]
	}
	return ipam.Owner(rapid.SampledFrom(names).Draw(m.t, "service"))
}

// put stores a new version of a Service. It ends a Service that is being deleted and has no finalizer.
func (m *model) put(who ipam.Owner, svc *corev1.Service) {
	if svc.DeletionTimestamp != nil && !service.Bound(svc) {
		delete(m.live, who)
		return
	}
	m.version++
	svc.ResourceVersion = strconv.Itoa(m.version)
	m.live[who] = svc
	m.keyed[who] = m.keyed[who] || svc.Annotations[service.AnnotationSharing] != ""
}

// change stores a changed version of a Service, if the Service exists.
func (m *model) change(who ipam.Owner, change func(*corev1.Service)) {
	if svc, there := m.live[who]; there {
		svc = svc.DeepCopy()
		change(svc)
		m.put(who, svc)
	}
}

func (m *model) create(who ipam.Owner) {
	if _, there := m.live[who]; there {
		return
	}
	created := metav1.Unix(int64(m.version), 0)
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: who.Namespace(), Name: string(who[len(who.Namespace())+1:]), CreationTimestamp: created,
		UID: types.UID(fmt.Sprint(m.version)), Annotations: map[string]string{},
	}}
	svc.Spec.ClusterIP = "10.96.0.1"
	delete(m.given, who)
	m.balance(svc)
	m.want(svc)
	m.put(who, svc)
}

// balance changes svc to type LoadBalancer, with any class.
func (m *model) balance(svc *corev1.Service) {
	svc.Spec.Type = corev1.ServiceTypeLoadBalancer
	if class := rapid.SampledFrom([]string{"", "", "", service.ClassV2, "example.com/lb"}).Draw(m.t, "class"); class != "" {
		svc.Spec.LoadBalancerClass = &class
	}
}

// retype changes the type of a Service as the API server does: the new type has no class
// and no load balancer status.
func (m *model) retype(who ipam.Owner) {
	m.change(who, func(svc *corev1.Service) {
		if svc.Spec.Type == corev1.ServiceTypeClusterIP {
			m.balance(svc)
			return
		}
		svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeClusterIP, nil
		svc.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	})
}

// want makes svc request anything.
func (m *model) want(svc *corev1.Service) {
	t := m.t
	dual := []corev1.IPFamily{"IPv4", "IPv6"}
	switch policy := rapid.SampledFrom([]corev1.IPFamilyPolicy{"SingleStack", "RequireDualStack", "PreferDualStack"}).Draw(t, "policy"); policy {
	case "SingleStack":
		one := rapid.IntRange(0, 1).Draw(t, "family")
		svc.Spec.IPFamilyPolicy, svc.Spec.IPFamilies = &policy, dual[one:one+1]
	default:
		svc.Spec.IPFamilyPolicy, svc.Spec.IPFamilies = &policy, dual
	}
	annotate := func(name string, values ...string) {
		delete(svc.Annotations, name)
		if value := rapid.SampledFrom(values).Draw(t, name); value != "" {
			svc.Annotations[name] = value
		}
	}
	groups := []string{"", "", "", "default", "second", "second", "cloud", "cloud", "team/second", "other/second", "nowhere"}
	addresses := []string{"", "", "", "192.0.2.1", "192.0.2.2", "192.0.2.2,2001:db8::1", "198.51.100.1", "172.31.1.0", "10.0.0.1"}
	if m.backed {
		groups, addresses = []string{"", "default", "second", "box", "box", "box", "box", "box"}, []string{"", "", "", "", "100.64.0.1", "192.0.2.2", "100.64.0.2,2001:db8:64::1"}
	}
	annotate(service.AnnotationGroup, groups...)
	annotate(service.AnnotationSharing, "", "", "key", "key", "other")
	annotate(service.AnnotationAddresses, addresses...)
	annotate(service.AnnotationMultiPool, "", "", "", "", "", "", "false", "true")
	annotate(service.AnnotationReevaluate, "", "", "", "", "", "true")
	svc.Labels = rapid.SampledFrom([]map[string]string{nil, {"tier": "gold"}}).Draw(t, "labels")
	svc.Spec.Ports = rapid.SampledFrom([][]corev1.ServicePort{{{Port: 80}}, {{Protocol: "UDP", Port: 80}}, {{Port: 80}, {Port: 443}}}).Draw(t, "ports")
}

// foreignOnly is an address that is in no group.
const foreignOnly = "10.9.9.9"

// interfere is another controller, which writes any status into a Service.
func (m *model) interfere(who ipam.Owner) {
	m.change(who, func(svc *corev1.Service) {
		if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
			return
		}
		before, present := service.Ingress(svc), svc.Status.LoadBalancer.Ingress
		ip := rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.3", "2001:db8::2", "198.51.100.1", "100.64.0.1", foreignOnly}).Draw(m.t, "ip")
		switch rapid.SampledFrom([]string{"clear", "replace", "add", "name", "ports"}).Draw(m.t, "interfere") {
		case "clear":
			present = nil
		case "replace":
			present = []corev1.LoadBalancerIngress{{IP: ip}}
		case "add":
			present = append(present, corev1.LoadBalancerIngress{IP: ip})
		case "name":
			present = append(present, corev1.LoadBalancerIngress{Hostname: "lb.example.com"})
		case "ports":
			for i := range present {
				present[i].Ports = []corev1.PortStatus{{Port: 80, Protocol: "TCP"}}
			}
		}
		svc.Status.LoadBalancer.Ingress = present
		if a := netip.MustParseAddr(ip); slices.Contains(service.Ingress(svc), a) && !slices.Contains(before, a) {
			m.foreign[who] = append(m.foreign[who], a)
		}
	})
}

// strip removes some of our annotations from a Service, as a tool that enforces a manifest does.
func (m *model) strip(who ipam.Owner) {
	m.change(who, func(svc *corev1.Service) {
		for _, name := range []string{service.AnnotationAllocatedBy, service.AnnotationAllocatedAddresses, service.AnnotationAllocatedFrom, service.AnnotationPoolType} {
			if rapid.Bool().Draw(m.t, name) {
				delete(svc.Annotations, name)
			}
		}
	})
}

// invite asks PureLB to adopt a Service, or to leave it to another controller, or takes that back.
func (m *model) invite(who ipam.Owner) {
	m.change(who, func(svc *corev1.Service) {
		name := rapid.SampledFrom([]string{service.AnnotationAdopt, service.AnnotationAdopt, service.AnnotationLeave}).Draw(m.t, "invitation")
		if svc.Annotations[name] != "" {
			delete(svc.Annotations, name)
		} else {
			svc.Annotations[name] = "true"
		}
	})
}

// remove deletes a Service. One with the finalizer stays until the allocator removes that, or sometimes a person.
func (m *model) remove(who ipam.Owner) {
	m.change(who, func(svc *corev1.Service) {
		now := metav1.Unix(int64(m.version), 0)
		svc.DeletionTimestamp = &now
		if m.flip("by force") {
			svc.Finalizers = nil
		}
	})
}
