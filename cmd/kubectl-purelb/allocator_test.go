package main

import (
	"slices"
	"strings"
	"testing"

	"purelb.io/purelb/internal/allocate/allocstate"
)

// statePath is where the API server passes /state of the allocator on.
const statePath = pathPods + "/http:allocator-1:7472/proxy/state"

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
		f := stage{world: recorded(t), allocator: &allocstate.State{Complete: true}}.server(t)
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
		if want := tt.command != "explain node n1" && tt.command != "explain group default"; asks != want {
			t.Errorf("%s asks the allocator: %t", tt.command, asks)
		}
	}
}
