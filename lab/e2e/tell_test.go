package e2e

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/kube"
)

// tell prints the state of the cluster after a failed test. It prints at once. The messages of the
// test itself are printed later, at its end. So they are the last lines, which a CI server shows.
func (w *world) tell() {
	fmt.Printf("=== what %s left behind\n", w.t.Name())
	var events corev1.EventList
	if err := w.List(w.ctx, &events, client.InNamespace(namespace)); err == nil {
		for _, e := range events.Items {
			fmt.Printf("event %s/%s: %s %s %s\n", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Source.Component, e.Reason, e.Message)
		}
	}
	var services corev1.ServiceList
	if err := w.List(w.ctx, &services, client.InNamespace(namespace)); err == nil {
		for _, s := range services.Items {
			fmt.Printf("Service %s: %v, annotations %v, conditions %v\n", s.Name, kube.Addresses(&s), s.Annotations, s.Status.Conditions)
		}
	}
	w.tellPaths()
	fmt.Println(lab.logs())
}

// tellPaths prints where packets to Services go: to which pods, by which routes, and which
// machines do not answer.
func (w *world) tellPaths() {
	var list discoveryv1.EndpointSliceList
	if err := w.List(w.ctx, &list, client.InNamespace(namespace)); err == nil {
		for _, s := range list.Items {
			fmt.Printf("EndpointSlice %s:", s.Name)
			for _, e := range s.Endpoints {
				unready := e.Conditions.Ready != nil && !*e.Conditions.Ready
				fmt.Printf(" %v of %s, unready %v;", e.Addresses, e.TargetRef, unready)
			}
			fmt.Println()
		}
	}
	for _, m := range append(lab.powered(), cluster.Router, cluster.Client) {
		for _, argv := range []string{"ip route", "ip -6 route", "ip neigh show nud failed", "ip neigh show nud incomplete", "ip -brief address"} {
			if out, err := lab.Exec(w.ctx, m, strings.Fields(argv)...); err == nil {
				fmt.Printf("%s: %s\n%s", m, argv, out)
			}
		}
	}
}
