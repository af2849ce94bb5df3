package service_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/expect"
)

var created = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

// svc is the Service default/web of type LoadBalancer.
func svc(change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web", UID: "uid-1", ResourceVersion: "7", Generation: 3, CreationTimestamp: created,
			Annotations: map[string]string{},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.10", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
		},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func annotated(pairs ...string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		for i := 0; i < len(pairs); i += 2 {
			s.Annotations[pairs[i]] = pairs[i+1]
		}
	}
}

func class(name string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.LoadBalancerClass = &name }
}

func showing(ips ...string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		for _, ip := range ips {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
		}
	}
}

func families(policy corev1.IPFamilyPolicy, f ...corev1.IPFamily) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = f, &policy }
}

func field(ip string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.LoadBalancerIP = ip }
}

func listening(protocol corev1.Protocol, port int32) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Protocol: protocol, Port: port})
	}
}

func addrs(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

func TestReadRequest(t *testing.T) {
	single, prefer, require := corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack
	yes, no := true, false
	v4, v6 := []addr.Family{addr.V4}, []addr.Family{addr.V6}
	plain := service.Request{Namespace: "default", Name: "web", UID: "uid-1", Created: created.Time, Families: v4, Policy: service.All}
	with := func(change func(*service.Request)) service.Request {
		r := plain
		change(&r)
		return r
	}
	tests := []struct {
		name string
		svc  *corev1.Service
		want service.Request
	}{
		{"plain", svc(), plain},
		{"SingleStack IPv6", svc(families(single, "IPv6")), with(func(r *service.Request) { r.Families = v6 })},
		{"PreferDualStack", svc(families(prefer, "IPv6", "IPv4")),
			with(func(r *service.Request) { r.Families, r.Policy = []addr.Family{addr.V6, addr.V4}, service.Some })},
		{"RequireDualStack", svc(families(require, "IPv4", "IPv6")),
			with(func(r *service.Request) { r.Families = []addr.Family{addr.V4, addr.V6} })},
		{"no families", svc(func(s *corev1.Service) { s.Spec.IPFamilies = nil }),
			with(func(r *service.Request) { r.Families, r.Policy = []addr.Family{addr.V6, addr.V4}, service.One })},

		{"a group", svc(annotated(service.AnnotationGroup, " blue ")), with(func(r *service.Request) { r.Group = "blue" })},
		{"a group by the older annotation", svc(annotated(service.AnnotationPool, "blue")), with(func(r *service.Request) { r.Group = "blue" })},
		{"both", svc(annotated(service.AnnotationPool, "green", service.AnnotationGroup, "blue")), with(func(r *service.Request) { r.Group = "blue" })},
		{"the selector of a Service that shares", svc(annotated(service.AnnotationSharing, "k"), func(svc *corev1.Service) {
			svc.Spec.Selector = map[string]string{"b": "2", "a": "1"}
		}), with(func(r *service.Request) { r.SharingKey, r.Selector = "k", "a=1,b=2" })},
		{"the selector of another Service is not read", svc(func(svc *corev1.Service) { svc.Spec.Selector = map[string]string{"a": "1"} }), with(func(*service.Request) {})},
		{"records, some of them unreadable", svc(annotated(service.AnnotationIPAMRecord, "192.0.2.1=https://netbox/1/?a=b =x 192.0.2.2 300.1.1.1=y 2001:db8::1=z")),
			with(func(r *service.Request) {
				r.Objects = map[netip.Addr]string{addrs("192.0.2.1")[0]: "https://netbox/1/?a=b", addrs("2001:db8::1")[0]: "z"}
			})},
		{"a sharing key", svc(annotated(service.AnnotationSharing, "k")), with(func(r *service.Request) { r.SharingKey = "k" })},

		{"one address of every pool", svc(annotated(service.AnnotationMultiPool, " true ")), with(func(r *service.Request) { r.MultiPool = &yes })},
		{"not one address of every pool", svc(annotated(service.AnnotationMultiPool, "True")), with(func(r *service.Request) { r.MultiPool = &no })},
		{"an empty value for every pool", svc(annotated(service.AnnotationMultiPool, "")), with(func(r *service.Request) { r.MultiPool = &no })},
		{"re-evaluate", svc(annotated(service.AnnotationReevaluate, "true")), with(func(r *service.Request) { r.Reevaluate = true })},
		{"re-evaluate with another value", svc(annotated(service.AnnotationReevaluate, "yes")), plain},
		{"allow policy Local", svc(annotated(service.AnnotationAllowLocal, "")), with(func(r *service.Request) { r.AllowLocal = true })},
		{"ports, sorted and without duplicates", svc(listening("UDP", 53), listening("TCP", 443), listening("", 53), listening("TCP", 53), listening("SCTP", 53)),
			with(func(r *service.Request) {
				r.Ports = []service.Port{{Protocol: "SCTP", Number: 53}, {Protocol: "TCP", Number: 53}, {Protocol: "UDP", Number: 53}, {Protocol: "TCP", Number: 443}}
			})},
		{"labels", svc(func(s *corev1.Service) { s.Labels = map[string]string{"app": "web"} }),
			with(func(r *service.Request) { r.Labels = map[string]string{"app": "web"} })},

		{"an address", svc(annotated(service.AnnotationAddresses, "192.0.2.7")), with(func(r *service.Request) { r.Asked = addrs("192.0.2.7") })},
		{"two addresses", svc(annotated(service.AnnotationAddresses, "192.0.2.7,2001:db8::7")),
			with(func(r *service.Request) { r.Asked = addrs("192.0.2.7", "2001:db8::7") })},
		{"two addresses with blanks", svc(annotated(service.AnnotationAddresses, " 192.0.2.7 ,\t2001:db8::7\n")),
			with(func(r *service.Request) { r.Asked = addrs("192.0.2.7", "2001:db8::7") })},
		{"an address in IPv6 form", svc(annotated(service.AnnotationAddresses, "::ffff:192.0.2.7")), with(func(r *service.Request) { r.Asked = addrs("192.0.2.7") })},
		{"loadBalancerIP", svc(field("192.0.2.7")), with(func(r *service.Request) { r.Asked, r.ByField = addrs("192.0.2.7"), true })},
		{"loadBalancerIP, and the annotation, which wins", svc(field("192.0.2.7"), annotated(service.AnnotationAddresses, "192.0.2.8")),
			with(func(r *service.Request) { r.Asked = addrs("192.0.2.8") })},

		{"what it holds", svc(showing("192.0.2.7", "2001:DB8::7", "192.0.2.7", "no address", "127.0.0.1", "fe80::1", "ff02::1", "0.0.0.0", "::ffff:169.254.0.1"), annotated(
			service.AnnotationAllocatedBy, service.Brand, service.AnnotationAllocatedFrom, "blue",
			service.AnnotationPoolType, "remote", service.AnnotationSkipIPv6DAD, "true")),
			with(func(r *service.Request) {
				r.Held, r.From, r.PoolType, r.SkipIPv6DAD = addrs("192.0.2.7", "2001:db8::7"), "blue", "remote", true
			})},
		{"policy Local", svc(func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = "Local" }), with(func(r *service.Request) { r.LocalPolicy = true })},
		{"being deleted", svc(func(s *corev1.Service) { s.DeletionTimestamp = &created }), with(func(r *service.Request) { r.Leaving = true })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, service.Rules{ByDefault: true}.Read(tt.svc), cmpopts.EquateComparable(netip.Addr{}), cmpopts.IgnoreFields(service.Request{}, "Ownership")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMalformedRequestsNameTheCure(t *testing.T) {
	annotation := func(value string) *corev1.Service { return svc(annotated(service.AnnotationAddresses, value)) }
	const mend = "; write one address, or one of each family separated by a comma"
	tests := []struct {
		name string
		svc  *corev1.Service
		want string
	}{
		{"no address", annotation("web"), `annotation purelb.io/addresses: "web" is not an IP address` + mend},
		{"half an address", annotation("192.0.2"), `annotation purelb.io/addresses: "192.0.2" is not an IP address` + mend},
		{"a range", annotation("192.0.2.1-192.0.2.2"), `annotation purelb.io/addresses: "192.0.2.1-192.0.2.2" is not an IP address` + mend},
		{"a network", annotation("2001:db8::/64"), `annotation purelb.io/addresses: "2001:db8::/64" is not an IP address` + mend},
		{"an extra comma", annotation("192.0.2.1,"), `annotation purelb.io/addresses: an address is missing` + mend},
		{"a zone", annotation("fe80::1%eth0"), `annotation purelb.io/addresses: "fe80::1%eth0" has a zone, and service addresses have none` + mend},
		{"two of IPv4", annotation("192.0.2.1,192.0.2.2"), `annotation purelb.io/addresses: 192.0.2.1 and 192.0.2.2 are both IPv4` + mend},
		{"two of IPv6", annotation("2001:db8::1, 2001:db8::2"), `annotation purelb.io/addresses: 2001:db8::1 and 2001:db8::2 are both IPv6` + mend},
		{"the same twice", annotation("192.0.2.1,192.0.2.1"), `annotation purelb.io/addresses: 192.0.2.1 and 192.0.2.1 are both IPv4` + mend},
		{"loadBalancerIP", svc(field("192.0.2.256")),
			`spec.loadBalancerIP: "192.0.2.256" is not an IP address; write one address, or one of each family separated by a comma, or better the annotation purelb.io/addresses instead`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := service.Rules{ByDefault: true}.Read(tt.svc)
			expect.Equal(t, "Malformed", r.Malformed, tt.want)
			if len(r.Asked) > 0 {
				t.Errorf("the request nevertheless has %s", r.Asked)
			}
		})
	}
}

func FuzzAsked(f *testing.F) {
	for _, text := range []string{"192.0.2.1", "192.0.2.1, 2001:db8::1", "::ffff:192.0.2.1,2001:db8::1", ",", "fe80::1%eth0", "1.2.3"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := service.Rules{ByDefault: true}.Read(svc(annotated(service.AnnotationAddresses, text)))
		if r.Malformed != "" && len(r.Asked) > 0 || len(r.Asked) > 2 {
			t.Errorf("%q asks for %s, malformed: %q", text, r.Asked, r.Malformed)
		}
		if r.Malformed == "" && len(r.Asked) == 0 && strings.TrimSpace(text) != "" {
			t.Errorf("%q requests no address", text)
		}
		for _, a := range r.Asked {
			if !a.IsValid() || a.Is4In6() || a.Zone() != "" {
				t.Errorf("%q asks for %s", text, a)
			}
		}
	})
}

// NetBox refuses an address with a name that is not a DNS name.
func TestHostnameIsADNSName(t *testing.T) {
	for text, want := range map[string]string{
		"web.example.com":                       "web.example.com",
		" *.example.com. , other.example.com":   "*.example.com.",
		"{{ .Host }},bücher.example,_a.example": "_a.example",
		"two words":                             "",
		strings.Repeat("a", 256):                "",
		"":                                      "",
	} {
		for _, name := range []string{service.AnnotationHostname, "external-dns.alpha.kubernetes.io/hostname"} {
			if got := (service.Rules{ByDefault: true}).Read(svc(annotated(name, text))).Hostname; got != want {
				t.Errorf("%s: %q gives %q, want %q", name, text, got, want)
			}
		}
	}
}
