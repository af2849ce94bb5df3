package announce_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/service"
)

// notes are the annotations of a Service that PureLB allocated, with further ones in pairs.
func notes(pairs ...string) map[string]string {
	all := map[string]string{service.AnnotationAllocatedBy: service.Brand}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}
	return all
}

func TestRead(t *testing.T) {
	const list, allow = service.AnnotationAllocatedAddresses, service.AnnotationAllowLocal
	shown := []string{"10.0.0.5"}
	class := func(s *corev1.Service) { name := "example.com/lb"; s.Spec.LoadBalancerClass = &name }
	nodePort := func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }
	old := func(s *corev1.Service) {
		s.Status.Conditions = []metav1.Condition{{Type: service.ConditionAllocated, Status: "True", Message: "Assigned 10.0.0.5 from pool blue"}}
	}
	given := func(s *corev1.Service) {
		s.Status.Conditions = []metav1.Condition{{Type: service.ConditionRecord, Status: "True", Message: `{"addresses":["10.0.0.5"],"from":"blue","poolType":"local"}`}}
	}
	rolledBack := func(s *corev1.Service) {
		given(s)
		s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: service.ConditionAllocated, Status: "True", Message: "Assigned 10.0.0.9 from pool red"})
	}
	for _, tt := range []struct {
		name   string
		notes  map[string]string
		shown  []string
		change func(*corev1.Service)
		want   string // addresses, groups, slots, affinity, AllowLocal
	}{
		{"ours", notes(list, "10.0.0.5,fd00::50"), []string{"fd00::50", "10.0.0.5"}, nil, "[fd00::50 10.0.0.5]  [] false false"},
		{"another address beside ours", notes(list, "10.0.0.5"), []string{"10.0.0.9", "10.0.0.5"}, nil, "[10.0.0.5]  [] false false"},
		{"another address in place of ours", notes(list, "10.0.0.5"), []string{"10.0.0.9"}, nil, "[]  [] false false"},
		{"a leftover brand on another class", notes(), []string{"10.0.0.9"}, class, "another's"},
		{"a leftover brand on another type", notes(list, "10.0.0.5"), []string{"10.0.0.5"}, nodePort, "another's"},
		{"of a version without records, without the brand", map[string]string{list: "10.0.0.5"}, []string{"10.0.0.5"}, nil, "another's"},
		{"without annotations", nil, []string{"10.0.0.5"}, nil, "another's"},
		{"with all annotations replaced", map[string]string{"example.com/mine": "yes"}, []string{"10.0.0.5"}, given, "[10.0.0.5] blue [] false false"},
		{"with older annotations applied again", notes(list, "10.0.0.7", service.AnnotationAllocatedFrom, "red"), []string{"10.0.0.5"}, given, "[10.0.0.5] blue [] false false"},
		{"emptied by another program", nil, nil, given, "[10.0.0.5] blue [] false false"},
		{"emptied by another program, of a version without records", notes(list, "10.0.0.5"), nil, nil, "[]  [] false false"},
		{"with a record, showing another address", nil, []string{"10.0.0.9"}, given, "[] blue [] false false"},
		{"with a record, of another type now", nil, nil, func(s *corev1.Service) { given(s); nodePort(s) }, "another's"},
		{"with an older record, written by a version without records", notes(list, "10.0.0.9"), []string{"10.0.0.9"}, rolledBack, "[10.0.0.9]  [] false false"},
		{"of the version before, which wrote no list", notes(), []string{"10.0.0.5"}, old, "[10.0.0.5]  [] false false"},
		{"of the version before, replaced", notes(), []string{"10.0.0.9"}, old, "[]  [] false false"},
		{"of the first versions, which wrote a brand only", notes(), []string{"10.0.0.5"}, nil, "[10.0.0.5]  [] false false"},
		{"the groups that gave it", notes(service.AnnotationAllocatedFrom, "far, near"), shown, nil, "[10.0.0.5] far, near [] false false"},
		{"a slot", notes(service.AnnotationAnnouncingIPv6, "node-b,eth0,fd00::50"), shown, nil, "[10.0.0.5]  [node-b,eth0,fd00::50] false false"},
		{"affinity", notes(announce.AnnotationNodeAffinity, "service-endpoints"), shown, nil, "[10.0.0.5]  [] true false"},
		{"no affinity that is known", notes(announce.AnnotationNodeAffinity, "something-else"), shown, nil, "[10.0.0.5]  [] false false"},
		{"policy Local allowed", notes(allow, "true"), shown, nil, "[10.0.0.5]  [] false true"},
		{"policy Local allowed in short", notes(allow, ""), shown, nil, "[10.0.0.5]  [] false true"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			svc := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Annotations: tt.notes},
				Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.10"},
			}
			for _, ip := range tt.shown {
				svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
			}
			if tt.change != nil {
				tt.change(svc)
			}
			got := "another's"
			if s, ours := announce.Read(svc); ours {
				got = fmt.Sprint(s.Addresses, " ", s.From, " ", s.Slots, s.Affinity, s.AllowLocal)
				equal(t, s.Key, "default/web")
			}
			equal(t, got, tt.want)
		})
	}
}
