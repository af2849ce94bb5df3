package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"purelb.io/purelb/internal/testing/apitest"
)

// BenchmarkStatus asks a real API server that has a thousand Services with addresses. It has
// no nodes, and no programs of PureLB.
func BenchmarkStatus(b *testing.B) {
	const services = 1000
	server := apitest.Shared(b)
	config := apitest.Config(b)
	config.QPS = -1
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	apitest.EnsureNamespace(b, installNamespace)
	namespace := apitest.Namespace(b)
	if out, err := server.Kubectl("apiVersion: purelb.io/v2\nkind: ServiceGroup\nmetadata: {name: bench, namespace: "+installNamespace+
		"}\nspec: {remote: {v4pools: [{subnet: 10.200.0.0/16, pool: 10.200.0.0/16}]}}\n", "apply", "-f", "-"); err != nil {
		b.Fatal(err, out)
	}
	b.Cleanup(func() {
		_, _ = server.Kubectl("", "delete", "servicegroups.v2.purelb.io", "-n", installNamespace, "bench")
	})
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for n := worker; n < services; n += 8 {
				if err := serve(b.Context(), c, namespace, n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if b.Failed() {
		return
	}
	args := []string{"status", "-o", "json", "--kubeconfig", server.Kubeconfig}
	start := time.Now()
	for b.Loop() {
		var out bytes.Buffer
		run(b.Context(), args, strings.NewReader(""), &out, &out)
		if !strings.Contains(out.String(), fmt.Sprintf(`"total": %d`, services)) {
			b.Fatalf("it does not count the Services:\n%.2000s", out.String())
		}
	}
	fmt.Printf("RESULT cli_status_1000_services_s %.3f s\n", time.Since(start).Seconds()/float64(b.N))
}

// serve makes Service n, with an address.
func serve(ctx context.Context, c kubernetes.Interface, namespace string, n int) error {
	ip := fmt.Sprintf("10.200.%d.%d", n/200, n%200+1)
	svc, err := c.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s%d", n), Annotations: map[string]string{
			"purelb.io/service-group": "bench", "purelb.io/allocated-by": "PureLB", "purelb.io/allocated-addresses": ip,
			"purelb.io/allocated-from": "bench", "purelb.io/pool-type": "remote",
		}},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("make a Service: %w", err)
	}
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
	if _, err = c.CoreV1().Services(namespace).UpdateStatus(ctx, svc, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("give a Service its address: %w", err)
	}
	return nil
}
