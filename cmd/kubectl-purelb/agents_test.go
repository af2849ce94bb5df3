package main

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/explain"
)

// agentPath is where the API server passes /state of the agent of a node on.
func agentPath(node string) string {
	return pathPods + "/http:lbnodeagent-" + strings.TrimPrefix(node, "n") + ":7472/proxy/state"
}

// An agent refuses a question about too many addresses.
func TestAgentsAreAskedOnceAboutASharedAddress(t *testing.T) {
	w := recorded(t)
	for _, svc := range w.Services {
		if svc.Name == "web" {
			svc.Name, svc.UID = "twin", "twin"
			w.Services = append(w.Services, svc)
		}
	}
	got := explain.WantsOf(w, explain.Subject{Kind: explain.OfIP, Name: "192.168.10.200"}).Addresses
	if want := []netip.Addr{netip.MustParseAddr("192.168.10.200")}; !slices.Equal(got, want) {
		t.Errorf("agents are asked about %v, want %v", got, want)
	}
}

// running says that the agents of pods run, and on which port they answer.
func running(pods []corev1.Pod) {
	for i := range pods {
		pods[i].Status.Phase = corev1.PodRunning
		for j := range pods[i].Spec.Containers {
			pods[i].Spec.Containers[j].Ports = []corev1.ContainerPort{{Name: "monitoring", ContainerPort: 7472}}
		}
	}
}
