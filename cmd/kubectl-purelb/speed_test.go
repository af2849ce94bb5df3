package main

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/explain"
)

// BenchmarkStatusOf judges ten thousand Services of a hundred groups.
func BenchmarkStatusOf(b *testing.B) {
	w := recorded(b)
	far := w.Groups[1]
	api := w.Services[2]
	w.Services = nil
	for g := range 100 {
		one := *far.DeepCopy()
		one.Name, one.UID = fmt.Sprintf("g%d", g), ""
		network := fmt.Sprintf("10.%d.0.0/16", g+100)
		one.Spec.Remote.V4Pools[0].Subnet, one.Spec.Remote.V4Pools[0].Pool = v2.Subnet(network), v2.Range(network)
		w.Groups = append(w.Groups, one)
		for n := range 100 {
			svc := *api.DeepCopy()
			ip := fmt.Sprintf("10.%d.0.%d", g+100, n)
			svc.Name = fmt.Sprintf("s%d-%d", g, n)
			svc.Annotations = map[string]string{"purelb.io/service-group": one.Name, "purelb.io/allocated-by": "PureLB",
				"purelb.io/allocated-addresses": ip, "purelb.io/allocated-from": one.Name, "purelb.io/pool-type": "remote"}
			svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
			w.Services = append(w.Services, svc)
		}
	}
	start := time.Now()
	for b.Loop() {
		if s := explain.StatusOf(w); s.Services.Summary.OK != len(w.Services) {
			b.Fatalf("%+v: %q", s.Services.Summary, s.Warnings[:3])
		}
	}
	fmt.Printf("RESULT cli_judge_10000_services_s %.3f s\n", time.Since(start).Seconds()/float64(b.N))
}
