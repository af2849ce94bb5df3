package announce_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/announce"
)

// Each line of a case is a pass: its second, then each address with the node that should have it or
// "goes"; and after an arrow what goes next.
func TestAddressesGoBackOneByOne(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	for name, passes := range map[string][]string{
		"after the time, the lowest first": {
			"0s 10.0.0.6=b 10.0.0.5=b -> none, again 10s",
			"9s 10.0.0.6=b 10.0.0.5=b -> none, again 10s",
			"10s 10.0.0.6=b 10.0.0.5=b -> 10.0.0.5, again 10s",
			"10s 10.0.0.6=b 10.0.0.5=goes -> 10.0.0.5, again 20s",
			"11s 10.0.0.6=b -> 10.0.0.6, again 11s",
			"11s 10.0.0.6=goes -> 10.0.0.6, again 21s",
			"12s -> none",
		},
		"another node begins anew": {
			"0s 10.0.0.5=b -> none, again 10s",
			"9s 10.0.0.5=c -> none, again 19s",
			"12s 10.0.0.5= -> none",
			"13s 10.0.0.5=c -> none, again 23s",
		},
		"an address that is not taken stays, and is tried again": {
			"0s 10.0.0.5=b -> none, again 10s",
			"10s 10.0.0.5=b -> 10.0.0.5, again 10s",
			"10s 10.0.0.5=goes -> 10.0.0.5, again 20s",
			"20s 10.0.0.5=goes -> none, again 20s",
			"20s 10.0.0.5=b -> none, again 1m30s",
			"1m30s 10.0.0.5=b -> 10.0.0.5, again 1m30s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var r announce.Returns
			for _, pass := range passes {
				given, _, _ := strings.Cut(pass, " -> ")
				fields := strings.Fields(given)
				after, err := time.ParseDuration(fields[0])
				if err != nil {
					t.Fatal(err)
				}
				var p announce.Plan
				for _, field := range fields[1:] {
					ip, node, _ := strings.Cut(field, "=")
					d := announce.Decision{IP: netip.MustParseAddr(ip), Better: node, After: 10 * time.Second}
					if node == "goes" {
						d.Better, d.Winner, d.Voluntary = "", "b", true
					}
					p.Decisions = append(p.Decisions, d)
				}
				again := r.Observe(begin.Add(after), p)
				got := given + " -> none"
				if r.Going.IsValid() {
					got = given + " -> " + r.Going.String()
				}
				if !again.IsZero() {
					got += ", again " + again.Sub(begin).String()
				}
				equal(t, got, pass)
			}
		})
	}
}
