package service_test

import (
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/service"
)

// said sets the message of our condition.
func said(message string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Status.Conditions = []metav1.Condition{{Type: service.ConditionAllocated, Status: metav1.ConditionTrue, Message: message}}
	}
}

// alsoSaid adds our condition with message.
func alsoSaid(message string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: service.ConditionAllocated, Status: metav1.ConditionTrue, Message: message})
	}
}

// recorded sets the record of addresses.
func recorded(addresses ...string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		text, _ := json.Marshal(map[string]any{"addresses": addresses})
		s.Status.Conditions = []metav1.Condition{{Type: service.ConditionRecord, Status: metav1.ConditionTrue, Message: string(text)}}
	}
}

func badRecord(s *corev1.Service) {
	s.Status.Conditions = []metav1.Condition{{Type: service.ConditionRecord, Status: metav1.ConditionTrue, Message: `{"addresses":["no address"]}`}}
}

// contesting sets the reason of our condition to StatusContested.
func contesting(s *corev1.Service) { s.Status.Conditions[0].Reason = service.ReasonContested }

// listing sets the brand and the list of addresses.
func listing(addresses string) func(*corev1.Service) {
	return annotated(service.AnnotationAllocatedBy, service.Brand, service.AnnotationAllocatedAddresses, addresses)
}

func hostname(s *corev1.Service) {
	s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{Hostname: "lb.example.com"})
}

// owned prints an Ownership.
func owned(o service.Ownership) string {
	text := fmt.Sprintf("%s, shown %v, strange %v", o.Owner, o.Shown, o.Strange)
	if o.Displaced() {
		text += ", displaced"
	}
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	return text
}

func TestOwnership(t *testing.T) {
	const (
		a, b    = "192.0.2.1", "192.0.2.2"
		byOther = "another's, shown [], strange [192.0.2.2]: another controller gave it its addresses"
		noClass = "no loadBalancerClass, and PureLB is not the default announcer"
	)
	brand := annotated(service.AnnotationAllocatedBy, service.Brand)
	kind := func(kind corev1.ServiceType) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.Type = kind }
	}
	clusterIP := func(ip string) func(*corev1.Service) { return func(s *corev1.Service) { s.Spec.ClusterIP = ip } }
	tests := []struct {
		name string
		svc  *corev1.Service
		// byDefault is the result of OwnershipOf if PureLB is the default announcer. otherwise is
		// the result if it is not; "" means the same result.
		byDefault, otherwise string
	}{
		{"without a class", svc(), "ours, shown [], strange []", "another's, shown [], strange []: " + noClass},
		{"the class of v1", svc(class(service.ClassV1)), "ours, shown [], strange []", ""},
		{"the class of v2", svc(class(service.ClassV2)), "ours, shown [], strange []", ""},
		{"another class", svc(class("example.com/lb")), "another's, shown [], strange []: loadBalancerClass is example.com/lb", ""},
		{"another class with our leftovers", svc(class("example.com/lb"), listing(a), showing(a)),
			"another's, shown [], strange [192.0.2.1]: loadBalancerClass is example.com/lb", ""},
		{"another type with our leftovers", svc(kind("NodePort"), listing(a)), "another's, shown [], strange []: type is NodePort, not LoadBalancer", ""},
		{"headless", svc(clusterIP("None")), "another's, shown [], strange []: headless", ""},
		{"without a cluster address", svc(clusterIP("")), "another's, shown [], strange []: headless", ""},

		{"ours", svc(recorded(a, b), showing(a, b)), "ours, shown [192.0.2.1 192.0.2.2], strange []", ""},
		{"ours, with annotations of others", svc(recorded(a), listing(b), showing(a)), "ours, shown [192.0.2.1], strange []", ""},
		{"ours, with an unreadable record", svc(badRecord, listing(a), showing(a)), "adopted, shown [192.0.2.1], strange []", ""},
		{"ours, with a record of an impossible address", svc(recorded("127.0.0.1"), listing(a), showing(a)), "adopted, shown [192.0.2.1], strange []", ""},
		{"ours, with the addresses of a version without records, which ran after us", svc(recorded(a), listing(b), showing(b), alsoSaid("Assigned "+b+" from pool default")),
			"adopted, shown [192.0.2.2], strange []", ""},
		{"ours, with a long condition that was cut", svc(recorded(a, b), showing(a, b), alsoSaid("Assigned "+a+", 192....")), "ours, shown [192.0.2.1 192.0.2.2], strange []", ""},
		{"ours, replaced, without the brand", svc(recorded(a), showing(b)), "contested, shown [], strange [192.0.2.2], displaced",
			"another's, shown [], strange [192.0.2.2]: " + noClass},

		{"of the previous version", svc(listing(a+","+b), showing(a, b)), "adopted, shown [192.0.2.1 192.0.2.2], strange []", ""},
		{"ours, with a host name of another controller", svc(recorded(a), showing(a), hostname), "ours, shown [192.0.2.1], strange []", ""},
		{"ours, cleared", svc(listing(a)), "ours, shown [], strange []", "another's, shown [], strange []: " + noClass},
		{"ours, with one address removed", svc(recorded(a, b), showing(b)), "ours, shown [192.0.2.2], strange []", ""},
		{"ours, with an added address", svc(listing(a), showing(a, b)), "contested, shown [192.0.2.1], strange [192.0.2.2]",
			"another's, shown [], strange [192.0.2.1 192.0.2.2]: " + noClass},
		{"ours, replaced", svc(listing(a), showing(b)), "contested, shown [], strange [192.0.2.2], displaced",
			"another's, shown [], strange [192.0.2.2]: " + noClass},
		{"ours, replaced, and contested before", svc(listing(a), showing(b), said("Assigned "+a), contesting), "contested, shown [], strange [192.0.2.2]",
			"another's, shown [], strange [192.0.2.2]: " + noClass},
		{"ours by its class, replaced", svc(class(service.ClassV2), listing(a), showing(b)), "contested, shown [], strange [192.0.2.2]", ""},
		{"ours by its class, served by another controller", svc(class(service.ClassV2), showing(b)), "contested, shown [], strange [192.0.2.2]", ""},
		{"ours by its class, with a host name", svc(class(service.ClassV2), hostname), "ours, shown [], strange []", ""},

		{"given by another controller", svc(showing(b)), byOther, "another's, shown [], strange [192.0.2.2]: " + noClass},
		{"given by another controller that writes no annotations", svc(showing(b), func(s *corev1.Service) { s.Annotations = nil }), byOther,
			"another's, shown [], strange [192.0.2.2]: " + noClass},
		{"given a host name by another controller", svc(hostname), "another's, shown [], strange []: another controller gave it its addresses",
			"another's, shown [], strange []: " + noClass},
		{"given by another controller after our refusal", svc(showing(b), said("pool exhausted")), byOther,
			"another's, shown [], strange [192.0.2.2]: " + noClass},
		{"given a host name after our refusal", svc(said("Assigned "), hostname), "another's, shown [], strange []: another controller gave it its addresses",
			"another's, shown [], strange []: " + noClass},

		{"of the previous version, which had no list", svc(brand, said("Assigned "+a+" from pool default"), showing(a)), "adopted, shown [192.0.2.1], strange []", ""},
		{"of the previous version, interrupted", svc(said("Assigned "+a+"; it is being repeated"), showing(a)), "adopted, shown [192.0.2.1], strange []", ""},
		{"of the previous version, without the brand", svc(said("Assigned "+a+", 2001:db8::1 from pool default; it asks for more"), showing(a, "2001:db8::1")),
			"adopted, shown [192.0.2.1 2001:db8::1], strange []", ""},
		{"of the previous version, replaced", svc(brand, said("Assigned "+a+" from pool default"), showing(b)), "contested, shown [], strange [192.0.2.2], displaced",
			"another's, shown [], strange [192.0.2.2]: " + noClass},
		{"of the previous version, replaced, without the brand", svc(said("Assigned "+a+" from pool default"), showing(b)), byOther,
			"another's, shown [], strange [192.0.2.2]: " + noClass},
		{"of the previous version, with an address that begins like ours", svc(said("Assigned 192.0.2.20 from pool default"), showing(b)), byOther,
			"another's, shown [], strange [192.0.2.2]: " + noClass},
		{"of the first versions, which had only a brand", svc(brand, showing(a)), "adopted, shown [192.0.2.1], strange []",
			"another's, shown [], strange [192.0.2.1]: " + noClass},
		{"of the first versions, without addresses", svc(brand), "ours, shown [], strange []", "another's, shown [], strange []: " + noClass},
		{"an unreadable list", svc(listing("no address,"), showing(a), said("Assigned "+a)), "adopted, shown [192.0.2.1], strange []", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := owned(service.OwnershipOf(tt.svc, true)); got != tt.byDefault {
				t.Errorf("default announcer:\ngot  %s\nwant %s", got, tt.byDefault)
			}
			want := tt.otherwise
			if want == "" {
				want = tt.byDefault
			}
			if got := owned(service.OwnershipOf(tt.svc, false)); got != want {
				t.Errorf("not the default announcer:\ngot  %s\nwant %s", got, want)
			}
		})
	}
}
