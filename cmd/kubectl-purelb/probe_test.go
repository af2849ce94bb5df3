package main

import (
	"slices"
	"strings"
	"testing"

	"purelb.io/purelb/internal/announce/probe"
)

// An agent gets a token that is valid only for probes of the address.
func TestAProbeHasATokenForItsAddress(t *testing.T) {
	f := stage{world: recorded(t), probes: map[string]probe.Answer{"n1": {Result: probe.Silent, Here: true}}}.server(t)
	if out, errs, _ := f.ask(t, "probe", "192.0.2.9", "--node", "n1"); !strings.HasPrefix(out, "192.0.2.9 is on node n1") {
		t.Errorf("it says\n%s%s", out, errs)
	}
	if !strings.Contains(f.posts[0], `"audiences":["probe.purelb.io/192.0.2.9"]`) || !slices.Equal(f.posts[1:], []string{`good{"address":"192.0.2.9"}`}) {
		t.Errorf("it posts %q", f.posts)
	}
}
