package gobgp

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/api"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/peering"
)

func TestAWrongGlobalStartsNoServer(t *testing.T) {
	tests := map[string]func(*peering.Global){
		"no AS":                 func(g *peering.Global) { g.ASN = 0 },
		"no router ID":          func(g *peering.Global) { g.RouterID = netip.Addr{} },
		"an IPv6 router ID":     func(g *peering.Global) { g.RouterID = netip.MustParseAddr("2001:db8::1") },
		"a zero router ID":      func(g *peering.Global) { g.RouterID = netip.IPv4Unspecified() },
		"a port of 70000":       func(g *peering.Global) { g.Port = 70000 },
		"a port of -2":          func(g *peering.Global) { g.Port = -2 },
		"no family":             func(g *peering.Global) { g.Families = nil },
		"the family 5":          func(g *peering.Global) { g.Families = []addr.Family{5} },
		"a zero listen address": func(g *peering.Global) { g.Listen = []netip.Addr{{}} },
		"the listen address of another machine": func(g *peering.Global) {
			g.Listen = []netip.Addr{netip.MustParseAddr("203.0.113.77")}
		},
		"a missing device":        func(g *peering.Global) { g.Device = "nowhere0" },
		"a long name of a device": func(g *peering.Global) { g.Device = "a-name-that-is-too-long" },
		"the confederation AS 0":  func(g *peering.Global) { g.Confederation = &peering.Confederation{} },
		"a confederation member AS 0": func(g *peering.Global) {
			g.Confederation = &peering.Confederation{Identifier: 1, Members: []uint32{0}}
		},
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			wrong := state()
			spoil(&wrong.Global)
			if _, err := s.Apply(t.Context(), wrong, false); !errors.Is(err, ErrStopped) {
				t.Errorf("the error is %v, want ErrStopped", err)
			}
			apply(t, s, state()) // the port is free again
		})
	}
}

func TestWrongPartsAreProblemsAndTheRestIsApplied(t *testing.T) {
	const path = "spec.wrong"
	neighbor := func(spoil func(*peering.Peer)) func(*peering.State) {
		return func(s *peering.State) {
			p := peer("192.0.2.7")
			p.Path = path
			spoil(&p)
			s.Peers = append(s.Peers, p)
		}
	}
	group := func(spoil func(*peering.Group)) func(*peering.State) {
		return func(s *peering.State) {
			g := peering.Group{Options: options(), Name: "g", Path: path}
			spoil(&g)
			s.Groups = append(s.Groups, g)
		}
	}
	dynamic := func(d peering.Dynamic) func(*peering.State) {
		return func(s *peering.State) {
			d.Path = path
			s.Groups = append(s.Groups, peering.Group{Options: options(), Name: "good"})
			s.Dynamic = append(s.Dynamic, d)
		}
	}
	statement := func(st peering.Statement, sets ...peering.Set) func(*peering.State) {
		return func(s *peering.State) {
			st.Name, st.Path = "wrong", path
			s.Sets = append(s.Sets, sets...)
			s.Export.Statements = slices.Insert(slices.Clone(s.Export.Statements), 0, st)
		}
	}
	number := func(n uint32) *uint32 { return &n }
	ref := func(match peering.Match) *peering.SetRef { return &peering.SetRef{Name: "set", Match: match} }
	where := netip.MustParseAddr
	tests := map[string]func(*peering.State){
		"neighbor without address and interface": neighbor(func(p *peering.Peer) { p.Address = netip.Addr{} }),
		"neighbor with address and interface":    neighbor(func(p *peering.Peer) { p.Interface = "eth0" }),
		"neighbor on a missing interface":        neighbor(func(p *peering.Peer) { p.Address, p.Interface = netip.Addr{}, "nowhere0" }),
		"neighbor on an interface with a slash":  neighbor(func(p *peering.Peer) { p.Address, p.Interface = netip.Addr{}, "../eth0" }),
		"neighbor 0.0.0.0":                       neighbor(func(p *peering.Peer) { p.Address = where("0.0.0.0") }),
		"neighbor ::ffff:192.0.2.9":              neighbor(func(p *peering.Peer) { p.Address = where("::ffff:192.0.2.9") }),
		"neighbor 224.0.0.1":                     neighbor(func(p *peering.Peer) { p.Address = where("224.0.0.1") }),
		"link-local neighbor without a zone":     neighbor(func(p *peering.Peer) { p.Address = where("fe80::9") }),
		"neighbor with a zone":                   neighbor(func(p *peering.Peer) { p.Address = where("2001:db8::9%eth0") }),
		"neighbor twice":                         neighbor(func(p *peering.Peer) { p.Address = where("192.0.2.2") }),
		"neighbor in AS 0":                       neighbor(func(p *peering.Peer) { p.ASN = 0 }),
		"password of 81 bytes":                   neighbor(func(p *peering.Peer) { p.Password = strings.Repeat("x", 81) }),
		"password with a zero byte":              neighbor(func(p *peering.Peer) { p.Password = "a\x00b" }),
		"no family":                              neighbor(func(p *peering.Peer) { p.Families = nil }),
		"family twice":                           neighbor(func(p *peering.Peer) { p.Families = append(p.Families, p.Families[0]) }),
		"family that does not exist":             neighbor(func(p *peering.Peer) { p.Families = []peering.Family{{Family: 9}} }),
		"warning at 200 %":                       neighbor(func(p *peering.Peer) { p.Families[0].WarnPercent = 200 }),
		"hold time of 1 s":                       neighbor(func(p *peering.Peer) { p.Timers.Hold = time.Second }),
		"hold time of a day":                     neighbor(func(p *peering.Peer) { p.Timers.Hold = 24 * time.Hour }),
		"hold time of 3.5 s":                     neighbor(func(p *peering.Peer) { p.Timers.Hold = 3500 * time.Millisecond }),
		"negative keepalive":                     neighbor(func(p *peering.Peer) { p.Timers.Keepalive = -time.Second }),
		"restart time of 2 h":                    neighbor(func(p *peering.Peer) { p.GracefulRestart.Restart = 2 * time.Hour }),
		"long-lived for a year":                  neighbor(func(p *peering.Peer) { p.GracefulRestart.LongLived = 365 * 24 * time.Hour }),
		"multihop with TTL security":             neighbor(func(p *peering.Peer) { p.Multihop, p.TTLSecurity = 2, 255 }),
		"local address of the other family":      neighbor(func(p *peering.Peer) { p.LocalAddress = where("2001:db8::1") }),
		"IPv6 cluster ID":                        neighbor(func(p *peering.Peer) { p.RouteReflector.ClusterID = where("2001:db8::1") }),
		"long device":                            neighbor(func(p *peering.Peer) { p.Device = "a-name-that-is-too-long" }),

		"group without a name":       group(func(g *peering.Group) { g.Name = "" }),
		"group in AS 0":              group(func(g *peering.Group) { g.ASN = 0 }),
		"group with a long password": group(func(g *peering.Group) { g.Password = strings.Repeat("x", 81) }),
		"dynamic without a group":    dynamic(peering.Dynamic{Prefix: netip.MustParsePrefix("10.0.0.0/8"), Group: "nowhere"}),
		"dynamic without a prefix":   dynamic(peering.Dynamic{Group: "good"}),
		"dynamic with host bits":     dynamic(peering.Dynamic{Prefix: netip.MustParsePrefix("10.0.0.1/8"), Group: "good"}),

		"missing set":         statement(peering.Statement{If: peering.Conditions{Prefixes: ref(peering.Any)}}),
		"set of another kind": statement(peering.Statement{If: peering.Conditions{Neighbors: ref(peering.Any)}}, peering.Set{Kind: peering.ASPathSet, Name: "set", List: []string{"^1"}}),
		"set without a kind":  statement(peering.Statement{If: peering.Conditions{Prefixes: ref(peering.Any)}}, peering.Set{Name: "set"}),
		"set without a name":  statement(peering.Statement{If: peering.Conditions{Prefixes: &peering.SetRef{}}}),
		"prefixes of two families": statement(peering.Statement{If: peering.Conditions{Prefixes: ref(peering.Any)}}, peering.Set{
			Kind: peering.PrefixSet, Name: "set", Prefixes: []peering.PrefixRange{
				{Prefix: netip.MustParsePrefix("10.0.0.0/8"), Min: 8, Max: 8}, {Prefix: netip.MustParsePrefix("2001:db8::/32"), Min: 32, Max: 32},
			}}),
		"a zero prefix":           statement(peering.Statement{If: peering.Conditions{Prefixes: ref(peering.Any)}}, peering.Set{Kind: peering.PrefixSet, Name: "set", Prefixes: []peering.PrefixRange{{}}}),
		"match all prefixes":      statement(peering.Statement{If: peering.Conditions{Prefixes: ref(peering.All)}}, peering.Set{Kind: peering.PrefixSet, Name: "set"}),
		"an unknown match":        statement(peering.Statement{If: peering.Conditions{Prefixes: ref("some")}}, peering.Set{Kind: peering.PrefixSet, Name: "set"}),
		"a neighbor by name":      statement(peering.Statement{If: peering.Conditions{Neighbors: ref(peering.Any)}}, peering.Set{Kind: peering.NeighborSet, Name: "set", List: []string{"frr"}}),
		"a wrong expression":      statement(peering.Statement{If: peering.Conditions{ASPaths: ref(peering.Any)}}, peering.Set{Kind: peering.ASPathSet, Name: "set", List: []string{"(("}}),
		"a wrong community":       statement(peering.Statement{If: peering.Conditions{Communities: ref(peering.Any)}}, peering.Set{Kind: peering.CommunitySet, Name: "set", List: []string{"(("}}),
		"a wrong large community": statement(peering.Statement{If: peering.Conditions{LargeCommunities: ref(peering.Any)}}, peering.Set{Kind: peering.LargeCommunitySet, Name: "set", List: []string{"(("}}),
		"an unknown origin":       statement(peering.Statement{If: peering.Conditions{Origin: "mars"}}),
		"an unknown RPKI state":   statement(peering.Statement{If: peering.Conditions{RPKI: "maybe"}}),
		"an unknown family":       statement(peering.Statement{If: peering.Conditions{Families: []addr.Family{7}}}),
		"a next hop of the other family": statement(peering.Statement{
			If: peering.Conditions{Families: []addr.Family{addr.V6}}, Then: peering.Actions{NextHop: where("192.0.2.1")},
		}),
		"a next hop for routes of both families": statement(peering.Statement{Then: peering.Actions{NextHop: where("192.0.2.1")}}),
		"a local pref of 0":                      statement(peering.Statement{Then: peering.Actions{LocalPref: number(0)}}),
		"an addition of 0 to the MED":            statement(peering.Statement{Then: peering.Actions{MED: &peering.MEDChange{Modify: true}}}),
		"a negative MED":                         statement(peering.Statement{Then: peering.Actions{MED: &peering.MEDChange{Value: -1}}}),
		"no communities":                         statement(peering.Statement{Then: peering.Actions{Communities: &peering.CommunityChange{Change: peering.Add}}}),
		"an unknown change of communities":       statement(peering.Statement{Then: peering.Actions{Communities: &peering.CommunityChange{List: []string{"1:1"}}}}),
		"a bad community":                        statement(peering.Statement{Then: peering.Actions{Communities: &peering.CommunityChange{Change: peering.Add, List: []string{"1:1:1:1"}}}}),
		"a bad large community":                  statement(peering.Statement{Then: peering.Actions{LargeCommunities: &peering.CommunityChange{Change: peering.Add, List: []string{"1:1"}}}}),
	}
	newWorld(t)
	s := newServer(t)
	apply(t, s, state(peer("192.0.2.2")))
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			wrong := state(peer("192.0.2.2"))
			spoil(&wrong)
			problems := tryApply(t, s, wrong)
			if len(problems) == 0 {
				t.Fatal("no problem")
			}
			for _, p := range problems {
				if p.Field != path || p.Message == "" || p.Reason == "" {
					t.Errorf("problem %+v, want one of %s", p, path)
				}
				if strings.Contains(p.Message, strings.Repeat("x", 20)) {
					t.Errorf("problem %q shows the password", p.Message)
				}
			}
			if all := neighbors(t, s); len(all) != 1 || all[0].Address.String() != "192.0.2.2" {
				t.Errorf("neighbors are %+v, want only the valid one", all)
			}
			if again := tryApply(t, s, wrong); fmt.Sprint(again) != fmt.Sprint(problems) {
				t.Errorf("the second Apply returns %v, want %v", again, problems)
			}
			apply(t, s, state(peer("192.0.2.2")))
		})
	}
}

func TestWrongRoutesAreErrorsAndTheOthersAreAnnounced(t *testing.T) {
	s := newServer(t)
	good := routes("198.51.100.1/32")
	wrong := append(routes("198.51.100.1/24"), peering.Route{}, peering.Route{
		Prefix: netip.MustParsePrefix("198.51.100.9/32"), Attributes: peering.Attributes{LargeCommunities: []string{"1:2"}},
	})
	for range 2 { // before and after the start of the server
		if err := s.Announce(t.Context(), append(wrong, good...)); err == nil || strings.Count(err.Error(), "announce") != 3 {
			t.Errorf("Announce returns %v, want three errors", err)
		}
		apply(t, s, state())
		if len(s.routes) != 1 {
			t.Errorf("the announced routes are %v, want %v", s.routes, good)
		}
	}
}

func TestAPanicOfGoBGPIsAnErrorOfEveryCall(t *testing.T) {
	e := startEngine(slog.New(slog.DiscardHandler), newEvents(), usualPatience)
	g := state().Global
	g.Port = -1 // a broken server keeps its port
	if err := e.start(g); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		err := e.call(func() error { return e.bgp.DeletePeer(t.Context(), &api.DeletePeerRequest{Interface: "eth0"}) })
		if !errors.Is(err, ErrBroken) {
			t.Errorf("got %v, want ErrBroken", err)
		}
	}
	if err := e.stop(t.Context(), false); !errors.Is(err, ErrBroken) {
		t.Errorf("Stop returns %v, want ErrBroken", err)
	}
	if err := e.call(func() error { panic("on our own goroutine") }); err == nil {
		t.Error("a panic on our own goroutine returns no error")
	}
}
