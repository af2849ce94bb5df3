package gobgp

import (
	"errors"
	"log/slog"
	"net/netip"
	"testing"

	"github.com/osrg/gobgp/v4/api"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
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

func TestAWrongNeighborIsAProblemAndTheRestIsApplied(t *testing.T) {
	newWorld(t)
	s := newServer(t)
	wrong := peer("192.0.2.7")
	wrong.Address, wrong.Interface = netip.MustParseAddr("fe80::1%nowhere0"), "nowhere0"
	for range 2 {
		if p := tryApply(t, s, state(peer("192.0.2.2"), wrong)); len(p) != 1 || p[0].Field != wrong.Path || p[0].Message == "" || p[0].Reason == "" {
			t.Errorf("the problems are %v, want one of %s", p, wrong.Path)
		}
		if all := neighbors(t, s); len(all) != 1 || all[0].Address.String() != "192.0.2.2" {
			t.Errorf("neighbors are %+v, want only the valid one", all)
		}
	}
	apply(t, s, state(peer("192.0.2.2")))
}

// The policies in effect say nothing about new neighbors and routes. Routes that are not wanted go.
func TestRefusedPoliciesAreAnErrorAndOnlyWithdraw(t *testing.T) {
	newWorld(t)
	s := newServer(t)
	wanted := state(peer("192.0.2.2"))
	wanted.Routes = routes("198.51.100.1/32", "198.51.100.2/32")
	apply(t, s, wanted)
	changed := peer("192.0.2.2")
	changed.ASN = birdAS
	next := state(changed, peer("192.0.2.3"))
	next.Routes = routes("198.51.100.1/32", "198.51.100.3/32")
	next.Peers[0].Overrides = map[string]peering.Override{peering.ProfileOf("wrong"): {LargeCommunities: []string{"(("}}}
	if _, err := s.Apply(t.Context(), next, false); err == nil {
		t.Error("GoBGP takes wrong policies")
	}
	if n := neighbors(t, s); len(n) != 1 || n[0].PeerASN != routerAS || len(s.routes) != 1 {
		t.Errorf("the neighbors are %+v, and the routes %v; want the former one, and the route that both have", n, s.routes)
	}
	next.Peers[0].Overrides = nil
	apply(t, s, next)
	if n := neighbors(t, s); len(n) != 2 || n[0].PeerASN != birdAS || len(s.routes) != 2 {
		t.Errorf("the neighbors are %+v, and the routes %v; want those of the State", n, s.routes)
	}
}

func TestAPanicOfGoBGPIsAnErrorOfEveryCall(t *testing.T) {
	e := startEngine(slog.New(slog.DiscardHandler), newEvents(), usualPatience)
	g := state().Global
	g.Port = -1 // a broken server keeps its port
	expect.NoError(t, e.start(g))
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
