package peering

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestWeightsFollowEndpointsSlowly prints the times at which the weight of an address changes.
func TestWeightsFollowEndpointsSlowly(t *testing.T) {
	type step struct {
		at        time.Duration
		endpoints int // -1: the Service wants no weight
	}
	// unstable returns a new number every second. The numbers begin with low.
	unstable := func(upTo time.Duration, low, numbers int) []step {
		var all []step
		for at := time.Duration(0); at <= upTo; at += time.Second {
			all = append(all, step{at, low + int(at/time.Second)%numbers})
		}
		return all
	}
	tests := []struct {
		name  string
		steps []step
		want  string
	}{
		{"the first number has an effect at once", []step{{0, 3}}, "0s=3"},
		{"no weight without an endpoint", []step{{0, 0}}, ""},
		{"a change has an effect when it stays", []step{{0, 3}, {time.Minute, 1}}, "0s=3 1m2s=1"},
		{"a change that is undone has no effect", []step{{0, 3}, {time.Minute, 2}, {61 * time.Second, 3}}, "0s=3"},
		{"an early change waits too", []step{{0, 3}, {time.Second, 2}}, "0s=3 3s=2"},
		{"the weight stays when the endpoints go", []step{{0, 3}, {time.Minute, 0}}, "0s=3"},
		{"endpoints that come back have an effect at once", []step{{0, 3}, {time.Minute, 0}, {2 * time.Minute, 1}}, "0s=3 2m0s=1"},
		{"a Service that wants no weight any more", []step{{0, 3}, {time.Second, -1}}, "0s=3 1s=0"},
		{"numbers near the announced one", unstable(5*time.Minute, 3, 2), "0s=3"},
		{"numbers that change without end have an effect every ten seconds", unstable(40*time.Second, 3, 1000), "0s=3 11s=14 22s=25 33s=36 42s=43"},
	}
	ip := netip.MustParseAddr("198.51.100.1")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			start := time.Unix(1e9, 0)
			w, announced := Weights{}, map[netip.Addr]uint32(nil)
			var got []string
			observe := func(now time.Time, n int) time.Time {
				endpoints := map[netip.Addr]uint32{}
				if n >= 0 {
					endpoints[ip] = uint32(n)
				}
				next, again := w.Observe(now, announced, endpoints)
				if next[ip] != announced[ip] {
					got = append(got, fmt.Sprintf("%v=%d", now.Sub(start), next[ip]))
				}
				announced = next
				return again
			}
			for i, s := range tt.steps {
				again := observe(start.Add(s.at), s.endpoints)
				for !again.IsZero() && (i+1 == len(tt.steps) || again.Before(start.Add(tt.steps[i+1].at))) {
					again = observe(again, s.endpoints)
				}
			}
			if got := strings.Join(got, " "); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestWeightsOfAnEarlierProcessStay(t *testing.T) {
	ip, now := netip.MustParseAddr("198.51.100.1"), time.Unix(1e9, 0)
	announced := map[netip.Addr]uint32{ip: 3}
	if next, again := (Weights{}).Observe(now, announced, announced); next[ip] != 3 || !again.IsZero() {
		t.Errorf("a known weight: weights %v, look again in %v", next, again)
	}
	if next, again := (Weights{}).Observe(now, announced, map[netip.Addr]uint32{ip: 2}); next[ip] != 3 || again != now.Add(weightQuiet) {
		t.Errorf("an unknown weight: weights %v, look again in %v", next, again)
	}
}

func TestAnAggregatedRouteHasNoWeight(t *testing.T) {
	weigh := func(netip.Addr) Attributes { return Attributes{Weight: 3} }
	for prefix, want := range map[string]uint32{"198.51.100.1/32": 3, "198.51.100.1/24": 0, "2001:db8::1/128": 3, "2001:db8::1/64": 0} {
		routes := Routes([]Imported{{Address: netip.MustParsePrefix(prefix)}}, weigh, false)
		if len(routes) != 1 || routes[0].Attributes.Weight != want {
			t.Errorf("%s: the routes are %+v, want the weight %d", prefix, routes, want)
		}
	}
}
