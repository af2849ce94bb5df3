package announce

import (
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/addr"
)

func TestANodeWhoseEndpointsEndIsLeftWhenTheOthersAreKnownToKubeProxy(t *testing.T) {
	const late = endingFor - time.Millisecond
	web, other := ServiceFamily{Service: "default/web", Family: addr.V4}, ServiceFamily{Service: "default/other", Family: addr.V4}
	type look struct {
		after       time.Duration
		ready, ends string
		want        string
		again       time.Duration // after the start; 0: never
	}
	for _, tt := range []struct {
		name  string
		looks []look
	}{
		{"nobody ends", []look{{0, "a b", "", "a b", 0}}},
		{"one ends, and another is ready", []look{
			{0, "a", "", "a", 0},
			{time.Second, "b", "a", "a b", time.Second + endingFor},
			{time.Second + late, "b", "a", "a b", time.Second + endingFor},
			{time.Second + endingFor, "b", "a", "b", 0},
			{time.Minute, "b", "a", "b", 0},
		}},
		{"one ends, and serves no longer", []look{
			{0, "b", "a", "a b", endingFor},
			{late, "b", "", "b", 0},
		}},
		{"all end", []look{
			{0, "", "a b", "a b", 0},
			{time.Hour, "", "a b", "a b", 0},
			{time.Hour, "c", "a b", "c", 0},
			{time.Hour, "", "", "", 0},
		}},
		{"one ends twice", []look{
			{0, "b", "a", "a b", endingFor},
			{endingFor, "b", "a", "b", 0},
			{endingFor, "a b", "", "a b", 0},
			{time.Minute, "b", "a", "a b", time.Minute + endingFor},
		}},
		{"two end one after the other", []look{
			{0, "c", "a", "a c", endingFor},
			{time.Second, "c", "a b", "a b c", endingFor},
			{endingFor, "c", "a b", "b c", time.Second + endingFor},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			of := func(nodes string) Endpoints {
				return Endpoints{web: strings.Fields(nodes), other: {"z"}}
			}
			var e Endings
			for _, l := range tt.looks {
				ready := of(l.ready)
				nodes, again := e.Observe(began.Add(l.after), ready, Endpoints{web: strings.Fields(l.ends)})
				if got := strings.Join(nodes[web], " "); got != l.want {
					t.Errorf("after %v: %q, want %q", l.after, got, l.want)
				}
				var want time.Time
				if l.again > 0 {
					want = began.Add(l.again)
				}
				if !again.Equal(want) {
					t.Errorf("after %v: again at %v, want %v", l.after, again, want)
				}
				if got := strings.Join(nodes[other], " "); got != "z" {
					t.Errorf("another Service has %q", got)
				}
			}
		})
	}
}
