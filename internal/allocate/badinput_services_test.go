package allocate_test

import (
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/apitest"
)

// badService is a Service with a mistake.
type badService struct {
	name string
	svc  *corev1.Service
	// later are merge patches, applied in order, and then is any other change. They introduce the
	// mistake after the allocation. found says that the Service exists before the allocator starts.
	later []string
	then  func(*world)
	found bool
	// more is how many writes the Service costs, besides the one that reports the mistake. vain
	// allows one more failed write: the allocator writes the spec while the cache lags behind.
	more int
	vain int
	// want is the text of the condition, with ADDRESS for the allocated address. Otherwise it is
	// "refused: " and the API server's message, or "nothing".
	want string
}

func asksFor(addresses string) func(*corev1.Service) {
	return annotated(service.AnnotationAddresses, addresses)
}

// badServices returns the Services in the order of their creation. All of them stay. Those of
// testdata/bad_services.txt are of type LoadBalancer, and have the port 80 if the text names none. A
// line "then" is a later patch, and "more" and "vain" are numbers of writes.
func badServices(t testing.TB) []badService {
	var all []badService
	for _, lines := range rowsOf(t, "bad_services.txt") {
		name, text, _ := strings.Cut(lines[1], " ")
		svc := apitest.As[corev1.Service](t, apitest.Object(t, "{apiVersion: v1, kind: Service, "+strings.TrimPrefix(text, "{")))
		like := balancer(name)
		svc.Name, svc.Spec.Type = name, like.Spec.Type
		if svc.Namespace == "" {
			svc.Namespace = like.Namespace
		}
		if svc.Spec.Ports == nil {
			svc.Spec.Ports = like.Spec.Ports
		}
		row := badService{name: lines[0], svc: &svc, want: lines[len(lines)-1]}
		for _, line := range lines[2 : len(lines)-1] {
			word, value, _ := strings.Cut(line, " ")
			n, _ := strconv.Atoi(value)
			switch word {
			case "then":
				row.later = append(row.later, value)
			case "more":
				row.more = n
			case "vain":
				row.vain = n
			default:
				t.Fatalf("%s: what is %q?", row.name, line)
			}
		}
		all = append(all, row)
	}
	return append(all, []badService{
		{name: "a very long address", svc: balancer("long", asksFor(strings.Repeat("10.", 70_000))),
			want: `False InvalidRequest: annotation purelb.io/addresses: "10.10.10.10.10.10.10.10.10.10.10.10.10.10.10.10.10.10.10.10.10.10.10.10.10.10.10"... is not an IP address; write one address, or one of each family separated by a comma`},
		{name: "a very long group", svc: balancer("long-group", inGroup(strings.Repeat("x", 100_000))),
			want: `False UnknownPool: unknown pool "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"...: there is no ServiceGroup of that name; create it, or change the annotation purelb.io/service-group`},
		{name: "a very long key", svc: balancer("web-7", keyed(strings.Repeat("key", 50_000), "81/TCP"), asksFor("10.200.3.30")),
			want: "False AddressInUse: 10.200.3.30 was asked for, but is already in use by default/web, which has another sharing key or none; ask for another address, or give both Services the same annotation purelb.io/allow-shared-ip"},
		{name: "an address that a node gets later", svc: balancer("node-2", asksFor("10.200.3.201")), more: 1,
			then: func(w *world) { w.node("n2", "10.200.3.201") },
			want: `False AddressConflict: Assigned 10.200.3.201 from pool default; 10.200.3.201 is also an address of node n2, so clients may not reach this Service; set the annotation purelb.io/re-evaluate: "true" to get another address, or remove it there`},
		{name: "an address that another machine gets later", svc: balancer("machine", asksFor("10.200.3.202")), more: 1,
			then: func(w *world) {
				w.patch(w.lease("n1", ""), `{"metadata":{"annotations":{"purelb.io/claimed-addresses":"10.200.3.7=02:00:00:00:00:07,10.200.3.202=02:00:00:00:00:07"}}}`)
			},
			want: `False AddressConflict: Assigned 10.200.3.202 from pool default; 10.200.3.202 is also an address of another machine, 02:00:00:00:00:07, as node n1 reports, so clients may not reach this Service; set the annotation purelb.io/re-evaluate: "true" to get another address, or remove it there`},
		{name: "an address that two Services have", svc: balancer("twin-b"), found: true,
			want: `False AddressConflict: Assigned 10.200.3.60 from pool default; 10.200.3.60 is also held by default/twin-a, which had it first; set the annotation purelb.io/re-evaluate: "true" to get another address, or delete one of the two Services`},
	}...)
}
