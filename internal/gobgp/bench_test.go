package gobgp

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/apiutil"

	"purelb.io/purelb/internal/peering"
)

// BenchmarkAnnounce announces 10,000 routes and withdraws them, without
// neighbors; bare is GoBGP's own work.
func BenchmarkAnnounce(b *testing.B) {
	many := make([]peering.Route, 10_000)
	for i := range many {
		many[i].Prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}), 32)
	}
	g := state()
	g.Global.Port = -1
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		s := newServer(b)
		apply(b, s, g)
		for b.Loop() {
			announce(b, s, many...)
			announce(b, s)
		}
	})
	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		e := startEngine(slog.New(slog.DiscardHandler), newEvents(), usualPatience)
		if err := e.start(g.Global); err != nil {
			b.Fatal(err)
		}
		p := newPathBuilder(0, ourAS)
		paths := make([]*apiutil.Path, len(many))
		for i, r := range many {
			var err error
			if paths[i], err = p.path(r); err != nil {
				b.Fatal(err)
			}
		}
		for b.Loop() {
			if _, err := e.bgp.AddPath(apiutil.AddPathRequest{Paths: paths}); err != nil {
				b.Fatal(err)
			}
			if err := e.bgp.DeletePath(apiutil.DeletePathRequest{Paths: paths}); err != nil {
				b.Fatal(err)
			}
		}
		_ = e.stop(b.Context(), false)
	})
}
