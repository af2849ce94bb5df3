package gobgp

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/osrg/gobgp/v4/api"

	"purelb.io/purelb/internal/bgp/peering"
)

// Package peering decides on valid states only. Only the server finds out what this node lacks.
func TestAWrongGlobalStartsNoServer(t *testing.T) {
	tests := map[string]func(*peering.Global){
		"a foreign listen address": func(g *peering.Global) {
			g.Listen = []netip.Addr{netip.MustParseAddr("203.0.113.77")}
		},
		"a device that is not there": func(g *peering.Global) { g.Device = "nowhere0" },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			wrong := state()
			spoil(&wrong.Global)
			if _, err := s.Apply(t.Context(), wrong, false); err == nil || s.engine != nil {
				t.Errorf("the error is %v, want one and no server", err)
			}
			apply(t, s, state()) // the port is free again
		})
	}
}

// wrongOverride is one that GoBGP refuses.
var wrongOverride = map[string]peering.Override{peering.ProfileOf("wrong"): {LargeCommunities: []string{"(("}}}

func TestWrongPartsAreProblemsAndTheRestIsApplied(t *testing.T) {
	const path = "spec.wrong"
	tests := map[string]struct {
		spoil func(*peering.State)
		field string
	}{
		"neighbor on no interface": {func(s *peering.State) {
			p := peer("192.0.2.7")
			p.Path, p.Address, p.Interface = path, netip.MustParseAddr("fe80::1%nowhere0"), "nowhere0"
			s.Peers = append(s.Peers, p)
		}, path},
		"a wrong large community": {func(s *peering.State) { s.Peers[0].Overrides = wrongOverride }, policyPath},
	}
	newWorld(t)
	s := newServer(t)
	apply(t, s, state(peer("192.0.2.2")))
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			wrong := state(peer("192.0.2.2"))
			tt.spoil(&wrong)
			problems := tryApply(t, s, wrong)
			if len(problems) == 0 {
				t.Fatal("no problem")
			}
			for _, p := range problems {
				if p.Field != tt.field || p.Message == "" || p.Reason == "" || p.Policies != (p.Field == policyPath) {
					t.Errorf("problem %+v, want one of %s", p, tt.field)
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
