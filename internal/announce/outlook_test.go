package announce_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/service"
)

// Every node decides for itself. Foresee must predict the decisions of the nodes of the
// segment.
func TestForeseeAgreesWithTheNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := theSituation()
		for i := range s.Peers.Members {
			s.Peers.Members[i].Draining = rapid.Bool().Draw(t, "draining")
			s.Peers.Members[i].Unproven = rapid.IntRange(0, 3).Draw(t, "unproven") == 0
		}
		ip := netip.MustParseAddr(rapid.SampledFrom([]string{"10.0.0.5", "10.0.0.77", "fd00::50", "172.16.0.9", "172.17.0.9", "172.18.0.9"}).Draw(t, "ip"))
		svc := announce.Service{Key: "default/web", Addresses: []netip.Addr{ip}}
		svc.Affinity, svc.LocalPolicy, svc.AllowLocal = rapid.Bool().Draw(t, "affinity"), rapid.Bool().Draw(t, "policy"), rapid.Bool().Draw(t, "allow")
		if holder := rapid.SampledFrom([]string{"", "node-a", "node-b", "node-z"}).Draw(t, "holder"); holder != "" {
			svc.Slots = []service.Slot{{Node: holder, Interface: "eth0", Address: ip}}
		}
		of := announce.ServiceFamily{Service: svc.Key, Family: addr.FamilyOf(ip)}
		ready := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"node-a", "node-b", "node-c"}), rapid.ID).Draw(t, "ready")
		if rapid.Bool().Draw(t, "withdraw") {
			withdrawing(&s)
		}
		s.Services, s.Endpoints = []announce.Service{svc}, onNodes(svc.Key, ready...)
		if rapid.IntRange(0, 4).Draw(t, "unknown") == 0 {
			delete(s.Endpoints, of)
		}
		var damping announce.IdleDamping
		for _, after := range []time.Duration{0, 5 * time.Second} {
			s.Idle, _ = damping.Observe(begin.Add(after), damping.Withdrawing(s.Services, s.Config.Groups), s.Endpoints, nil)
		}
		o := announce.Foresee(s)[0]
		d := announce.Decide(s).Decisions[0]
		if _, known := s.Endpoints[of]; o.Undecided || o.Narrow && !known {
			if d.Reason != announce.ReasonKept && d.Reason != announce.ReasonUndecided {
				t.Fatalf("foreseen %+v, and decided %+v", o, d)
			}
			return
		}
		if o.Idle != (d.Reason == announce.ReasonIdle) {
			t.Fatalf("foreseen %+v, and decided %+v", o, d)
		}
		here := !o.Narrow || slices.Contains(ready, s.Self)
		if (o.Where == announce.Remote && here) != (d.Where == announce.Remote) {
			t.Fatalf("foreseen %+v, and decided %+v", o, d)
		}
		if o.Where == announce.Local && (o.Choice.Node != d.Winner || o.Choice.Reason != d.Because) {
			t.Fatalf("foreseen %+v, and decided %+v", o, d)
		}
		if o.Where == announce.Nowhere && d.Where != announce.Nowhere {
			t.Fatalf("foreseen nowhere, and decided %+v", d)
		}
	})
}

// The chosen node is always one that Candidates calls fit, unless the node has the address as
// its own.
func TestTheChosenNodeIsFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := theSituation().Peers.Members
		members = append(members, member("node-d", "10.9.0.0/16"))
		var p election.Preference
		for i := range members {
			members[i].Draining = rapid.Bool().Draw(t, "draining")
			members[i].Unproven = rapid.Bool().Draw(t, "unproven")
			members[i].Eligible = rapid.Bool().Draw(t, "eligible")
			if rapid.Bool().Draw(t, "preferred") {
				if p.Nodes == nil {
					p.Nodes = map[string]bool{}
				}
				p.Nodes[members[i].Node] = true
			}
		}
		p.Strict = rapid.Bool().Draw(t, "strict")
		ip := netip.MustParseAddr("10.0.0.5")
		fit := map[string]bool{}
		for _, c := range announce.Candidates(members, ip, p) {
			if c.Why == "" {
				t.Fatalf("nothing is said about %s", c.Node)
			}
			fit[c.Node] = c.Fit
		}
		choice := election.NewView(members).Choose(ip, "", p)
		if choice.Node != "" && !fit[choice.Node] {
			t.Fatalf("%s is chosen (%s) and is not fit: %+v, %+v", choice.Node, choice.Reason, members, p)
		}
		if choice.Node == "" {
			for node, is := range fit {
				if is {
					t.Fatalf("%s is fit, and none is chosen: %+v, %+v", node, members, p)
				}
			}
		}
	})
}
