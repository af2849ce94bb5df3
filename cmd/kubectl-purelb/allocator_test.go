package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/allocate/allocstate"
	"purelb.io/purelb/internal/explain"
)

// statePath is where the API server passes /state of the allocator on.
const statePath = pathPods + "/http:allocator-1:7472/proxy/state"

// withAllocator gives f the recorded cluster, and an allocator that leads and says s. A nil s
// says nothing.
func (f *fakeServer) withAllocator(t *testing.T, s *allocstate.State) explain.World {
	t.Helper()
	w := recorded(t)
	running(w.Pods)
	w.Leases = append(w.Leases, coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: leaderLease, Namespace: installNamespace},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("allocator-1")},
	})
	f.has(t, w)
	if s == nil {
		return w
	}
	s.Format, s.Leading, s.Identity, s.Leader = allocstate.Format, true, "allocator-1", "allocator-1"
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	f.texts[statePath] = string(text)
	return w
}

// Without the answer of the allocator the others stay, and what is unknown is named.
func TestAnAllocatorThatIsNotHeardIsNamed(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault func(*fakeServer)
		want  string
	}{
		{"no right", func(f *fakeServer) { f.faults[statePath] = 403 }, "you have no right to get pods/proxy in namespace purelb-system (the Role purelb-inspector has)"},
		{"an earlier version", func(f *fakeServer) { delete(f.texts, statePath) }, "allocator-1 does not serve /state: it is of an earlier version, or gone"},
		{"no connection", func(f *fakeServer) { f.faults[statePath] = 503 }, "allocator-1 did not answer: "},
		{"an earlier format", func(f *fakeServer) { f.texts[statePath] = `{"format": 1, "version": "0.9.0", "leading": true}` }, "version 0.9.0, answers in format 1, and this plugin reads format 3: use the plugin of that version"},
		{"a later format", func(f *fakeServer) { f.texts[statePath] = `{"format": 4, "version": "9.9.9", "leading": true}` }, "version 9.9.9, answers in format 4, and this plugin reads format 3: use the plugin of that version"},
		{"a standby", func(f *fakeServer) { f.texts[statePath] = `{"format": 3, "leader": "allocator-2"}` }, "allocator-1 does not lead"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFakeServer(t)
			f.withAllocator(t, &allocstate.State{Complete: true})
			tt.fault(f)
			for _, command := range []string{"explain service default/late", "explain ip 203.0.113.99", "status"} {
				out, _, code := f.ask(t, strings.Fields(command)...)
				i := strings.Index(out, explain.KindAllocator+": ")
				if i < 0 || !strings.Contains(out[i:], tt.want) || !strings.Contains(out, "what its backends answered it, is unknown") {
					t.Errorf("%s does not say %q:\n%s", command, tt.want, out)
				}
				if code == exitFailed {
					t.Errorf("%s has no answer", command)
				}
			}
		})
	}
}

// A user without the right to read /state is told nothing that worries him while all is well.
func TestStatusIsFineWithoutTheAllocatorsState(t *testing.T) {
	f := newFakeServer(t)
	f.purelb(t)
	out, _, code := f.ask(t, "status")
	if code != exitFine || strings.Contains(out, explain.KindAllocator) {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

// explain asks for the lists that it needs, once for the state of the allocator, and once each for
// those of the agents that matter.
func TestExplainNeedsFewRequests(t *testing.T) {
	for _, tt := range []struct {
		command string
		most    int
	}{
		{"explain service default/web", 10 + 2}, {"explain service default/api", 10 + 2}, {"explain ip 192.168.10.200", 10 + 2},
		{"explain ip 203.0.113.0", 10 + 2}, {"explain group default", 10}, {"explain node n1", 10 + 2},
	} {
		f := newFakeServer(t)
		f.withAllocator(t, &allocstate.State{Complete: true})
		if out, errs, code := f.ask(t, strings.Fields(tt.command)...); code == exitFailed {
			t.Fatalf("%s: %s%s", tt.command, out, errs)
		}
		if len(f.asked) > tt.most {
			t.Errorf("%s: %d requests, want at most %d:\n%s", tt.command, len(f.asked), tt.most, strings.Join(f.asked, "\n"))
		}
		if strings.HasPrefix(tt.command, "explain service default/web") && !slices.Contains(f.asked, agentPath("n1")+"?ip=192.168.10.200") {
			t.Errorf("%s does not ask the agent that has the address: %q", tt.command, f.asked)
		}
		asks := slices.ContainsFunc(f.asked, func(path string) bool { return strings.HasPrefix(path, statePath) })
		if want := tt.command != "explain node n1"; asks != want {
			t.Errorf("%s asks the allocator: %t", tt.command, asks)
		}
	}
}
