package main

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/allocate/allocstate"
	"purelb.io/purelb/internal/announce/agentstate"
	"purelb.io/purelb/internal/explain"
)

// withAgents gives f the recorded cluster without n3, with agents on n1 and n2 that answer states.
// An agent without a state does not answer.
func (f *fakeServer) withAgents(t *testing.T, states ...agentstate.State) {
	t.Helper()
	f.withAllocator(t, &allocstate.State{Complete: true})
	f.objects[pathLeases] = slices.DeleteFunc(f.objects[pathLeases], func(o map[string]any) bool {
		return o["metadata"].(map[string]any)["name"] == "purelb-node-n3"
	})
	for _, s := range states {
		s.Format = agentstate.Format
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		f.texts[agentPath(s.Node)] = string(text)
	}
}

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

// Where an agent that matters does not answer, the answer says what is unknown because of that.
func TestAnAgentThatIsNotHeardIsNamed(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault func(*fakeServer)
		want  string
	}{
		{"no right", func(f *fakeServer) { f.faults[agentPath("n1")] = 403 }, "State of the agent of n1: you have no right to get pods/proxy in namespace purelb-system (the Role purelb-inspector has)"},
		{"no connection", func(f *fakeServer) { f.faults[agentPath("n1")] = 503 }, "State of the agent of n1: lbnodeagent-1 did not answer: "},
		{"a later format", func(f *fakeServer) { f.texts[agentPath("n1")] = `{"format": 2, "version": "9.9.9"}` }, "version 9.9.9, answers in format 2, and this plugin reads format 1"},
		{"no agent", func(f *fakeServer) { f.objects[pathPods] = f.objects[pathPods][:1] }, "State of the agent of n1: no running agent was found there"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFakeServer(t)
			f.withAgents(t)
			tt.fault(f)
			out, _, code := f.ask(t, "explain", "service", "default/mail")
			if !strings.Contains(out, tt.want) || !strings.Contains(out, "why it does not have an address that it should have is unknown") || code != exitProblems {
				t.Errorf("exit code %d, and it does not say %q:\n%s", code, tt.want, out)
			}
		})
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
