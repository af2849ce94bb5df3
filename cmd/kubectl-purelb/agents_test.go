package main

import (
	"encoding/json"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/agentstate"
	"purelb.io/purelb/internal/allocstate"
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

func TestExplainTellsWhatAgentsKnow(t *testing.T) {
	mail, web := netip.MustParseAddr("192.168.10.201"), netip.MustParseAddr("192.168.10.200")
	blocked := "192.168.10.201 on eth0 is answered by another machine, 02:00:00:00:00:99"
	for _, tt := range []struct {
		name, command string
		states        []agentstate.State
		first         string
		want          []string
	}{
		{
			"an address that the chosen node cannot take", "explain service default/mail",
			[]agentstate.State{{Node: "n1", Complete: true, NotHere: []agentstate.Address{{IP: mail, Service: "default/mail", Why: "n1 has the lowest hash", Failure: blocked}}}},
			"default/mail has an address that is not announced: 192.168.10.201: node n3, which announced it, no longer renews its Lease; n1 is to take it, and its agent says: " + blocked,
			[]string{"What the agents say", "  n1: 192.168.10.201 is not here: n1 has the lowest hash; " + blocked},
		},
		{
			"an address that is there, and a claim of another machine", "explain ip 192.168.10.200",
			[]agentstate.State{{
				Node: "n1", Complete: true, Here: []agentstate.Address{{IP: web, Service: "default/web", Interface: "eth0"}},
				Conflicts: []agentstate.Conflict{{IP: web, MAC: "02:00:00:00:00:99", Link: "eth0"}},
			}},
			"192.168.10.200 is held by default/web, and node n1 announces it on eth0",
			[]string{"  n1: 192.168.10.200 is on eth0", "  n1: 192.168.10.200 is claimed by the machine with MAC 02:00:00:00:00:99 on eth0, too"},
		},
		{
			"a node whose agent cannot add an address", "explain node n1",
			[]agentstate.State{{
				Node: "n1", Complete: true, NotHere: []agentstate.Address{{IP: mail, Service: "default/mail", Failure: "operation not permitted"}},
				Errors: []string{"add 192.168.10.201: operation not permitted"},
			}},
			"node n1 does not have an address that it should have: 192.168.10.201 of default/mail is not on the node: operation not permitted",
			[]string{"What its agent says", "  its last pass failed: add 192.168.10.201: operation not permitted"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFakeServer(t)
			f.withAgents(t, tt.states...)
			out, errs, _ := f.ask(t, strings.Fields(tt.command)...)
			lines := strings.Split(out, "\n")
			if lines[0] != tt.first {
				t.Errorf("it begins with %q, want %q\n%s", lines[0], tt.first, errs)
			}
			for _, line := range tt.want {
				if !slices.Contains(lines, line) {
					t.Errorf("there is no line %q in\n%s%s", line, out, errs)
				}
			}
			name := filepath.Join(t.TempDir(), "report.tar.gz")
			for path, text := range f.texts { // A report asks without the name of the protocol.
				f.texts[strings.Replace(path, "/http:", "/", 1)] = text
			}
			if out, errs, code := f.ask(t, "report", name); code != exitFine {
				t.Fatal(code, out, errs)
			}
			opened, _, _ := f.ask(t, append([]string{"report", "--open", name}, strings.Fields(tt.command)...)...)
			if first, _, _ := strings.Cut(opened, "\n"); first != tt.first {
				t.Errorf("from a report it begins with %q, want %q", first, tt.first)
			}
		})
	}
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
