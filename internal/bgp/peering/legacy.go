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
		r.ignored(at("spec.dynamicNeighbors", i), []unread{{"", true, "nodes have sessions only with routers that the configuration names: " +
			"list each one in spec.neighbors, by its neighborAddress, or by neighborGateway or neighborInterface if each node has another one"}})
	}
	r.ignored("spec", []unread{
		{".communityAliases", len(r.spec.CommunityAliases) > 0, "communities have no names: write the numbers where the names are"},
		{".definedSets", len(r.spec.DefinedSets) > 0, "there are no policies: remove it"},
		{".policyDefinitions", len(r.spec.PolicyDefinitions) > 0, "nodes announce only addresses of Services: " + advertise},
		{".vrfs", len(r.spec.VRFs) > 0, "VRFs are not supported: remove them"},
	})
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
			r.note(path+f.field, ReasonNotSupported, "is not in effect, because %s", f.why)
		}
	}
}

// advertise is what replaces policies.
const advertise = "say in spec.bgp of the ServiceGroups which neighbors get them, with which communities, MED, local preference and path; " +
	"communityList of the rules of netlinkExport selects what nodes learn"

const noLongLived = "routers keep the routes for restartTime alone: write a longer one"

// legacyGlobal lists the fields of spec.global.
func legacyGlobal(g bgpv1.Global) []unread {
	selection := value(g.RouteSelectionOptions)
	return []unread{
		{".allowTransit", g.AllowTransit, "a node announces only its own addresses: remove it, and let the routers peer with each other"},
		{".applyPolicy", value(g.ApplyPolicy).Set(), "there are no policies: " + advertise},
		{".confederation", value(g.Confederation).Enabled,
			"nodes are in one AS: remove it, peer with routers in that AS, and write localAsn at neighbors that expect another number of the nodes"},
		{".defaultRouteDistance", value(g.DefaultRouteDistance) != bgpv1.DefaultRouteDistance{},
			"routes have no administrative distance here: use the metric of the rules of netlinkExport"},
		{".gracefulRestart.longLivedRestartTime", value(g.GracefulRestart).LongLivedRestartTime != 0, noLongLived},
		{".routeSelectionOptions.advertiseInactiveRoutes", selection.AdvertiseInactiveRoutes, "what is announced does not depend on routing tables: remove it"},
		{".routeSelectionOptions.alwaysCompareMed", selection.AlwaysCompareMED, "a node passes no routes on: remove it, and let the routers compare them"},
		{".useMultiplePaths", g.UseMultiplePaths, "one route of each prefix goes into a routing table: remove it"},
	}
}

// legacySession lists the fields of neighbors and peer groups.
func legacySession(o bgpv1.SessionOptions) []unread {
	all := []unread{
		{".allowOwnAsn", o.AllowOwnASN != 0,
			"routes with the AS of the nodes in their path are not accepted: let the router replace it (as-override), or give each rack an AS of its own by localAsn"},
		{".applyPolicy", value(o.ApplyPolicy).Set(), "there are no policies: " + advertise},
		{".gracefulRestart.longLivedRestartTime", value(o.GracefulRestart).LongLivedRestartTime != 0, noLongLived},
		{".routeReflector.routeReflectorClient", is(value(o.RouteReflector).RouteReflectorClient, false),
			"a node passes no routes on: remove it, and make a router the reflector"},
		{".timers.config.minimumAdvertisementInterval", value(o.Timers).Config.MinimumAdvertisementInterval != 0,
			"changes are announced at once: remove it"},
	}
	for i, f := range o.AFISAFIs {
		all = append(all, unread{at(".afiSafis", i) + ".addPaths", value(f.AddPaths) != bgpv1.AddPaths{}, "a node announces one path of each prefix and uses one: remove it"})
	}
	return all
}
