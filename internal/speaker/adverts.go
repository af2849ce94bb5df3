package speaker

import (
	"context"
	"errors"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/peering"
)

// adverts holds the cancel function of each running sender of Router Advertisements, by
// interface.
type adverts map[string]context.CancelFunc

// advertise sends Router Advertisements on unnumbered links: routers wait for them before
// they open a session.
func (s *Speaker) advertise(ctx context.Context, state peering.State) {
	wanted := map[string]bool{}
	for _, p := range state.Peers {
		if p.Interface != "" && !p.AdminDown {
			wanted[p.Interface] = true
		}
	}
	for iface, stop := range s.adverts {
		if !wanted[iface] {
			stop()
			delete(s.adverts, iface)
		}
	}
	for iface := range wanted {
		if s.adverts[iface] != nil {
			continue
		}
		ctx, stop := context.WithCancel(ctx)
		s.adverts[iface] = stop
		s.beside.wait.Go(func() { s.advertiseAlways(ctx, iface) })
	}
}

func (s *Speaker) advertiseAlways(ctx context.Context, iface string) {
	for said := ""; ctx.Err() == nil; backoff.Sleep(ctx, retryMax) {
		err := s.Kernel.Advertise(ctx, iface)
		if ctx.Err() != nil {
			return
		}
		if text := orElse(err, errEnded).Error(); text != said {
			said = text
			s.Log.WarnContext(ctx, "advertiseFailed", "node", s.Node, "interface", iface, "error", text)
		}
	}
}

// errEnded says that a task ended that should run until it is canceled.
var errEnded = errors.New("it ended by itself")

func orElse(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}
