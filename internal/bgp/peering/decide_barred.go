package peering

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// bar prevents left-out neighbors from connecting as dynamic neighbors. Otherwise the speaker would
// accept them without their policy or their password.
func (r *reader) bar() {
	for _, l := range r.d.LeftOut {
		if l.address.IsValid() && r.accepted(l.address) && !r.named(l.address) {
			r.d.State.Peers = append(r.d.State.Peers, r.barred(l))
		}
	}
}

// accepted reports whether the State accepts a as a dynamic neighbor.
func (r *reader) accepted(a netip.Addr) bool {
	return slices.ContainsFunc(r.d.State.Dynamic, func(d Dynamic) bool { return d.Prefix.Contains(a.WithZone("")) })
}

// named reports whether the State has a neighbor with address a. A neighbor that is configured
// twice is both left out and in the State.
func (r *reader) named(a netip.Addr) bool {
	return slices.ContainsFunc(r.d.State.Peers, func(p Peer) bool { return p.Address == a })
}

// barred returns a neighbor that never gets a session.
func (r *reader) barred(l LeftOut) Peer {
	g := r.d.State.Global
	p := Peer{
		Address: l.address, AdminDown: true, Path: l.Path,
		Options: Options{
			ASN: cmp.Or(l.ASN, g.ASN), LocalASN: g.ASN, Description: l.Description, Passive: true,
			Timers: Timers{
				Hold: defaultHold * time.Second, Keepalive: defaultHold / 3 * time.Second, ConnectRetry: defaultConnectRetry * time.Second,
			},
		},
	}
	for _, f := range g.Families {
		p.Families = append(p.Families, Family{Family: f, MaxPrefixes: DefaultMaxPrefixes})
	}
	return p
}
