package peering

import (
	bgpv1 "purelb.io/purelb/api/bgp/v1"
)

// unread is a field that older manifests may have and that this version does not read.
type unread struct {
	field string
	// set reports whether the manifest has the field with a meaning.
	set bool
	// why says why the field has no effect, and what to write instead.
	why string
}

// legacy reports the fields that are not read. The rest of the configuration is in effect.
func (r *reader) legacy() {
	for i := range r.spec.DynamicNeighbors {
		r.ignored(at("spec.dynamicNeighbors", i), []unread{{"", true, "is not in effect, because nodes have sessions only with routers that the configuration names: " +
			"list each one in spec.neighbors, by its neighborAddress, or by neighborGateway or neighborInterface if each node has another one"}})
	}
	r.ignored("spec.global", legacyGlobal(r.spec.Global))
	for i, n := range r.spec.Neighbors {
		r.ignored(at("spec.neighbors", i), legacySession(n.SessionOptions))
	}
	for i, g := range r.spec.PeerGroups {
		r.ignored(at("spec.peerGroups", i), legacySession(g.SessionOptions))
	}
}

func (r *reader) ignored(path string, fields []unread) {
	for _, f := range fields {
		if f.set {
			r.note(path+f.field, ReasonNotSupported, "%s", f.why)
		}
	}
}

// legacyGlobal lists the fields of spec.global.
func legacyGlobal(g bgpv1.Global) []unread {
	return []unread{
		{".defaultRouteDistance", value(g.DefaultRouteDistance) != bgpv1.DefaultRouteDistance{},
			"is not in effect, because routes have no administrative distance here: use the metric of the rules of netlinkExport"},
		{".routeSelectionOptions.advertiseInactiveRoutes", value(g.RouteSelectionOptions).AdvertiseInactiveRoutes,
			"is not in effect, because what is announced does not depend on routing tables: remove it"},
	}
}

// legacySession lists the fields of neighbors and peer groups.
func legacySession(o bgpv1.SessionOptions) []unread {
	return []unread{
		{".timers.config.minimumAdvertisementInterval", value(o.Timers).Config.MinimumAdvertisementInterval != 0,
			"is not in effect, because changes are announced at once: remove it"},
	}
}
