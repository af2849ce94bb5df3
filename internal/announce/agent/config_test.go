package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/testing/expect"
)

func state(w *world) string {
	for _, s := range selectorStates {
		if testutil.ToFloat64(w.metrics.selectorState.WithLabelValues(s)) == 1 {
			return s
		}
	}
	return ""
}

func TestAWrongConfigurationKeepsAddresses(t *testing.T) {
	for _, tt := range []struct {
		name, expression, event, state string
	}{
		{"malformed", "eth[", "Warning ConfigError Node node-a is announcing nothing new, and keeps what it has: spec.local.localInterface: ", "invalid"},
		{"without a match", "wlan0", `Warning ConfigError Node node-a is announcing nothing on its interfaces: no interface matches "wlan0"; the node has eth0, eth1`, "configured"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, nil, func(w *world) {
				w.serve(branded("web", "192.0.2.9", "2001:db8::9"), branded("far", "203.0.113.7"))
				before, slots := w.kernel.String(), w.slots("web")
				w.reported()
				expect.Equal(t, "state", state(w), "configured")
				w.cluster.change(func(s *objects) {
					s.Agents = []v2.LBNodeAgent{lbNodeAgent("default", v2.InterfaceSpec{LocalInterface: tt.expression})}
					s.Agents[0].Generation = 2
				})
				w.peers.change(func(p *election.Peers) { p.Known, p.Members = nil, []election.Member{{Node: "node-a", Eligible: true}} })
				pass(10 * time.Minute)
				expect.Equal(t, "kernel", w.kernel.String(), before)
				expect.Equal(t, "slots", w.slots("web"), slots)
				expect.Equal(t, "state", state(w), tt.state)
				if got := w.reported(); !strings.HasPrefix(got, tt.event) || strings.Count(got, "\n") > 0 {
					t.Errorf("the events are %q, want one that begins with %q", got, tt.event)
				}
				if last := w.peers.publications(); !strings.HasPrefix(last, "[] purelb/default ") {
					t.Errorf("the published record is %q, want no subnets and the problem", last)
				}

				// The configuration is correct again. The other nodes do not know that yet.
				w.kernel.changes()
				w.peers.heard = func(p *election.Peers) { p.Trusted = false }
				w.cluster.change(func(s *objects) {
					s.Agents = []v2.LBNodeAgent{lbNodeAgent("default", v2.InterfaceSpec{})}
					s.Agents[0].Generation = 3
				})
				settle()
				w.peers.heard = nil
				w.peers.change(func(p *election.Peers) {
					p.Trusted, p.Known, p.Members = true, subnets, []election.Member{peer("node-a"), peer("node-b")}
				})
				settle()
				lacks(t, "changes by the correct configuration", w.kernel.changes(), "remove")
				expect.Equal(t, "kernel, mended", w.kernel.String(), before)
				expect.Equal(t, "slots, mended", w.slots("web"), slots)
			})
		})
	}
}
