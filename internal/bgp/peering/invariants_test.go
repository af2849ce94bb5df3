package peering_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
)

// invariants checks what is true of every decision, for any spec.
func invariants(t testing.TB, d peering.Decision) {
	t.Helper()
	for _, p := range d.Problems {
		if p.Message == "" || p.Reason == "" || p.Field == "" {
			t.Errorf("a problem without field, reason or message: %+v", p)
		}
	}
	if !d.OK {
		return
	}
	s := d.State
	if g := s.Global; g.ASN == 0 || !g.RouterID.Is4() || len(g.Families) == 0 || g.Port < -1 || g.Port > 65535 {
		t.Errorf("the global part is not valid: %+v", g)
	}
	for _, a := range s.Global.Listen {
		if !a.IsValid() || a.Is4In6() {
			t.Errorf("the listen address %s is not valid", a)
		}
	}
	if len(s.Global.Device) > 15 {
		t.Errorf("the global part is not valid: %+v", s.Global)
	}
	once(t, "peer", s.Peers, peering.Peer.Name)
	for _, p := range s.Peers {
		soundPeer(t, s, p)
	}
}

// once checks that no two elements have the same name.
func once[T any](t testing.TB, what string, list []T, name func(T) string) {
	t.Helper()
	seen := map[string]bool{}
	for _, e := range list {
		if n := name(e); n == "" || seen[n] {
			t.Errorf("two elements of the kind %s have the name %q", what, n)
		} else {
			seen[n] = true
		}
	}
}

func soundPeer(t testing.TB, s peering.State, p peering.Peer) {
	t.Helper()
	if p.Address.IsValid() == (p.Interface != "") || p.Address.Is4In6() || p.Address.IsMulticast() || p.Path == "" ||
		p.Interface != "" && !isLink(p.Interface) ||
		p.Interface == "" && (p.Address.IsUnspecified() || (p.Address.Zone() != "") != (p.Address.Is6() && p.Address.IsLinkLocalUnicast())) ||
		p.LocalAddress.IsValid() && p.Address.IsValid() && p.LocalAddress.Is4() != p.Address.Is4() {
		t.Errorf("a peer is not valid: %+v", p)
	}
	for mark, o := range p.Overrides {
		if o.LocalPref != nil && *o.LocalPref == 0 || o.Prepend > 0 && p.ASN == p.LocalASN {
			t.Errorf("peer %s gets routes with the mark %s with %+v", p.Name(), mark, o)
		}
	}
	for f, hop := range p.NextHops {
		if addr.FamilyOf(hop) != f || slices.Contains(p.Mute, f) {
			t.Errorf("peer %s has the next hop %s for the family %s", p.Name(), hop, f)
		}
	}
	soundOptions(t, s, p.Name(), p.Options)
}

// isLink reports whether a link can have that name, or none.
func isLink(name string) bool { return len(name) <= 15 && !strings.ContainsAny(name, "/ %\n\t") }

// inSeconds reports whether t is in whole seconds from 0 to most.
func inSeconds(t time.Duration, most int) bool {
	return t >= 0 && t <= time.Duration(most)*time.Second && t%time.Second == 0
}

func soundOptions(t testing.TB, s peering.State, name string, o peering.Options) {
	t.Helper()
	wrong := (o.ASN == 0) != o.External || o.LocalASN == 0 || len(o.Password) > 80 || len(o.Families) == 0 ||
		o.Multihop != 0 && o.TTLSecurity != 0 || o.Timers.Keepalive >= o.Timers.Hold || o.Timers.Keepalive <= 0 ||
		o.GracefulRestart.Enabled && o.GracefulRestart.Restart <= 0
	wrong = wrong || strings.ContainsRune(o.Password, 0) || o.LocalAddress.Is4In6() || o.LocalAddress.IsMulticast() || !isLink(o.Device) ||
		o.Timers.Hold < 3*time.Second ||
		!inSeconds(o.GracefulRestart.Restart, 4095)
	for _, d := range []time.Duration{o.Timers.Hold, o.Timers.Keepalive, o.Timers.ConnectRetry} {
		wrong = wrong || !inSeconds(d, 1<<16-1)
	}
	for i, f := range o.Families {
		wrong = wrong || !slices.Contains(s.Global.Families, f.Family) || f.WarnPercent > 100 ||
			slices.ContainsFunc(o.Families[:i], func(e peering.Family) bool { return e.Family == f.Family })
	}
	if wrong {
		t.Errorf("the options of %s are not valid: %+v", name, o)
	}
}
