package gobgp

import (
	"time"

	"github.com/osrg/gobgp/v4/api"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
)

// idleHold is the pause of GoBGP after a session was reset. Its own default of 30 s would be
// an outage of that length.
const idleHold = 1

// peerOf translates p for GoBGP. It leaves out the description, because GoBGP would end the session
// to change it, and BFD, which GoBGP does not handle. A neighbor that is held down gets no graceful
// restart: after a restart, GoBGP would wait for it before it announces routes.
//
// With the AS number 0, GoBGP reads the number and the kind of the session from the neighbor's
// OPEN. The speaker ends a session with an external neighbor that is in LocalASN.
func peerOf(p peering.Peer, restarting bool) *api.Peer {
	if p.AdminDown {
		p.GracefulRestart = peering.GracefulRestart{}
	}
	out := &api.Peer{
		Conf: &api.PeerConf{
			NeighborAddress: p.Address.String(), PeerAsn: p.ASN, LocalAsn: p.LocalASN, AuthPassword: p.Password,
			AdminDown: p.AdminDown,
		},
		AfiSafis:        familiesOf(p.Options),
		Timers:          timersOf(p.Timers),
		Transport:       transportOf(p.Options),
		EbgpMultihop:    multihopOf(p.Multihop),
		TtlSecurity:     ttlOf(p.TTLSecurity),
		GracefulRestart: restartOf(p.GracefulRestart),
	}
	out.Transport.RemotePort = uint32(p.Port)
	out.GracefulRestart.LocalRestarting = restarting && p.GracefulRestart.Enabled && !p.GracefulRestart.HelperOnly
	return out
}

// familyOf returns f as unicast family.
func familyOf(f addr.Family) *api.Family {
	number := bgpFamily(f)
	return &api.Family{Afi: api.Family_Afi(number.Afi()), Safi: api.Family_Safi(number.Safi())}
}

// familiesOf sets graceful restart for every family. By default GoBGP negotiates it for no family,
// and neighbors keep only the routes of negotiated families. familiesOf does not set it for a
// neighbor that keeps none of our routes: after a restart, GoBGP would wait for that neighbor
// before it announces routes.
func familiesOf(o peering.Options) []*api.AfiSafi {
	keeps := o.GracefulRestart.Enabled && !o.GracefulRestart.HelperOnly
	var out []*api.AfiSafi
	for _, f := range o.Families {
		family := familyOf(f.Family)
		out = append(out, &api.AfiSafi{
			Config: &api.AfiSafiConfig{Family: family, Enabled: true},
			PrefixLimits: &api.PrefixLimit{
				Family: family, MaxPrefixes: f.MaxPrefixes, ShutdownThresholdPct: uint32(f.WarnPercent),
			},
			MpGracefulRestart: &api.MpGracefulRestart{Config: &api.MpGracefulRestartConfig{Enabled: keeps}},
		})
	}
	return out
}

func seconds(d time.Duration) uint64 { return uint64(max(d, 0) / time.Second) }

func timersOf(t peering.Timers) *api.Timers {
	return &api.Timers{Config: &api.TimersConfig{
		HoldTime: seconds(t.Hold), KeepaliveInterval: seconds(t.Keepalive), ConnectRetry: seconds(t.ConnectRetry),
		IdleHoldTimeAfterReset: idleHold,
	}}
}

func transportOf(o peering.Options) *api.Transport {
	out := &api.Transport{PassiveMode: o.Passive, BindInterface: o.Device}
	if o.LocalAddress.IsValid() {
		out.LocalAddress = o.LocalAddress.String()
	}
	return out
}

func multihopOf(ttl uint8) *api.EbgpMultihop {
	return &api.EbgpMultihop{Enabled: ttl > 0, MultihopTtl: uint32(ttl)}
}

func ttlOf(least uint8) *api.TtlSecurity {
	return &api.TtlSecurity{Enabled: least > 0, TtlMin: uint32(least)}
}

// restartOf does not enable RFC 8538, because neighbors would then keep the routes of a dead node.
func restartOf(g peering.GracefulRestart) *api.GracefulRestart {
	return &api.GracefulRestart{
		Enabled: g.Enabled, HelperOnly: g.HelperOnly,
		RestartTime: uint32(seconds(g.Restart)), DeferralTime: uint32(seconds(g.Deferral)),
	}
}
