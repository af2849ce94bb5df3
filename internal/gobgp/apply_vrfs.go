package gobgp

import (
	"context"
	"fmt"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"purelb.io/purelb/internal/peering"
)

func (a *application) removeVRFs(vrfs []peering.VRF) {
	for _, v := range vrfs {
		err := a.engine.call(func() error {
			return a.engine.bgp.DeleteVrf(context.Background(), &api.DeleteVrfRequest{Name: v.Name})
		})
		if err != nil {
			a.problem(v.Path, reasonRefused, fmt.Errorf("remove VRF %s: %w", v.Name, err))
			continue
		}
		delete(a.found.vrfs, v.Name)
		a.wait(v.Name)
	}
}

// wait keeps the routes of a removed VRF for the next VRF of that name.
func (a *application) wait(vrf string) {
	for key := range a.routes {
		if key.VRF == vrf {
			a.pending[key] = true
		}
	}
}

func (a *application) addVRFs(vrfs []peering.VRF) {
	for _, v := range vrfs {
		if _, there := a.found.vrfs[v.Name]; there {
			continue
		}
		if err := a.addVRF(v); err != nil {
			a.problem(v.Path, reasonRefused, fmt.Errorf("VRF %s: %w", v.Name, err))
			continue
		}
		a.found.vrfs[v.Name] = v
	}
}

func (a *application) addVRF(v peering.VRF) error {
	out := &api.Vrf{Name: v.Name}
	rd, err := bgp.ParseRouteDistinguisher(v.RD)
	if err != nil {
		return fmt.Errorf("route distinguisher %q: %w", v.RD, err)
	}
	if out.Rd, err = apiutil.MarshalRD(rd); err != nil {
		return err
	}
	if out.ImportRt, err = targets(v.ImportRT); err != nil {
		return err
	}
	if out.ExportRt, err = targets(v.ExportRT); err != nil {
		return err
	}
	return a.engine.call(func() error {
		return a.engine.bgp.AddVrf(context.Background(), &api.AddVrfRequest{Vrf: out})
	})
}

func targets(texts []string) ([]*api.RouteTarget, error) {
	var out []*api.RouteTarget
	for _, text := range texts {
		rt, err := bgp.ParseRouteTarget(text)
		if err != nil {
			return nil, fmt.Errorf("route target %q: %w", text, err)
		}
		target, err := apiutil.MarshalRT(rt)
		if err != nil {
			return nil, fmt.Errorf("route target %q: %w", text, err)
		}
		out = append(out, target)
	}
	return out, nil
}

// originateWaiting gives the routes that waited for their VRFs to the server, before there
// are neighbors: a neighbor that keeps routes over a restart must get all of them at once.
func (a *application) originateWaiting() {
	for _, v := range a.found.state().VRFs {
		if err := a.originate(a.waiting(v.Name)); err != nil {
			a.problem(v.Path, reasonRefused, fmt.Errorf("routes of VRF %s: %w", v.Name, err))
		}
	}
}

func (a *application) waiting(vrf string) []peering.Route {
	var routes []peering.Route
	for key := range a.pending {
		if key.VRF == vrf {
			routes = append(routes, a.routes[key])
		}
	}
	return routes
}
