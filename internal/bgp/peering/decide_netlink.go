package peering

import (
	"math"
	"path"
	"slices"
	"time"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
)

const (
	defaultDampening = 100 * time.Millisecond
	mostDampening    = time.Minute
	defaultMetric    = 20
	// bgpProtocol is RTPROT_BGP. Numbers below leastProtocol are for routes of the kernel, and for
	// routes that administrators add by hand.
	bgpProtocol   = 186
	leastProtocol = 5
)

// imports reads which addresses become routes.
func (r *reader) imports() {
	const field = "spec.netlinkImport"
	in := r.spec.NetlinkImport
	if in == nil {
		r.d.Import.Enabled = true
		return
	}
	if !in.Enabled {
		if in.VRF != "" || len(in.InterfaceList) > 0 {
			r.note(field, ReasonAdjusted, notEnabled)
		}
		return
	}
	r.d.Import = ImportRules{Enabled: true, Patterns: r.patterns(field, in.InterfaceList)}
	if in.VRF != "" {
		r.note(field+".vrf", ReasonNotSupported, noVRFs, "nothing is imported: remove it, and the addresses are announced to all neighbors")
		r.d.Import = ImportRules{}
	}
	if len(in.InterfaceList) > 0 && len(r.d.Import.Patterns) == 0 {
		r.d.Import = ImportRules{}
	}
}

// patterns reads names of interfaces, or patterns for them.
func (r *reader) patterns(field string, list []string) []string {
	var all []string
	for i, p := range list {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			r.note(at(field+".interfaceList", i), ReasonParseError,
				"%s is neither the name of an interface nor a pattern such as eth*, and left out", quote(p))
			continue
		}
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// Learns reports whether a node with this configuration may learn routes.
func Learns(spec bgpv1.BGPConfigurationSpec) bool {
	return spec.NetlinkExport != nil && spec.NetlinkExport.Enabled && len(spec.NetlinkExport.Rules) > 0
}

// exports reads which learned routes go into the kernel.
func (r *reader) exports() {
	const field = "spec.netlinkExport"
	r.d.Protocol, r.d.Dampening = bgpProtocol, defaultDampening
	in := r.spec.NetlinkExport
	if in == nil {
		return
	}
	if !in.Enabled {
		if len(in.Rules) > 0 {
			r.note(field, ReasonAdjusted, notEnabled)
		}
		return
	}
	r.dampening(field, in.DampeningInterval)
	if len(in.Rules) == 0 {
		r.note(field+".rules", ReasonAdjusted, "nothing is exported without a rule: add one")
	}
	for i, rule := range in.Rules {
		if read, ok := r.exportRule(at(field+".rules", i), rule); ok {
			r.d.Export = append(r.d.Export, read)
		}
	}
	if in.RouteProtocol != 0 {
		r.d.Protocol = int(in.RouteProtocol)
	}
	if r.d.Protocol < leastProtocol || r.d.Protocol > math.MaxUint8 {
		r.note(field+".routeProtocol", ReasonParseError,
			"%d is not a number to mark our routes with, so nothing is exported: write one from 5 to 255", in.RouteProtocol)
		r.d.Protocol, r.d.Export = bgpProtocol, nil
	}
}

func (r *reader) dampening(field string, milliseconds int32) {
	d := time.Duration(milliseconds) * time.Millisecond
	switch {
	case d == 0:
	case d < 0 || d > mostDampening:
		r.note(field+".dampeningInterval", ReasonParseError, "%d is not from 1 to 60000, so 100 is used", milliseconds)
	default:
		r.d.Dampening = d
	}
}

// exportRule reads one rule. Its name is for people.
func (r *reader) exportRule(field string, in bgpv1.ExportRule) (ExportRule, bool) {
	out := ExportRule{
		Name: in.Name, ValidateNextHop: is(in.ValidateNexthop, true),
		AllowDefault: in.AllowDefaultRoute, Path: field,
	}
	ok := r.destination(field, &out, in) && r.filters(field, &out, in.CommunityList, in.LargeCommunityList)
	return out, ok
}

// destination reads the destination of routes.
func (r *reader) destination(field string, out *ExportRule, in bgpv1.ExportRule) bool {
	table, metric := in.TableID, in.Metric
	switch {
	case in.VRF != "" && table == 0:
		return r.refuse(field+".vrf", ReasonNotSupported, noVRFs, "the rule is not in use: write the number of the table of the VRF device into tableId")
	case in.VRF != "":
		r.note(field+".vrf", ReasonNotSupported, noVRFs, "only tableId counts: remove vrf")
	}
	if table < 0 || table > math.MaxUint32 {
		return r.refuse(field+".tableId", ReasonParseError, "%d is not the number of a routing table: write one from 0 (the main one) to 4294967295", table)
	}
	if metric < 0 || metric > math.MaxUint32 {
		return r.refuse(field+".metric", ReasonParseError, "%d is not a metric: write one from 1 to 4294967295", metric)
	}
	if metric == 0 {
		metric = defaultMetric
	}
	out.Table, out.Metric = uint32(table), uint32(metric)
	return true
}

// filters reads which routes a rule selects. A mistake makes the rule unusable, because without the
// filter the rule would select more routes.
func (r *reader) filters(field string, out *ExportRule, communities, large []string) bool {
	ok := true
	for i, text := range communities {
		c, err := parseCommunity(text)
		if err != nil {
			ok = r.refuse(at(field+".communityList", i), ReasonParseError, "%v; the rule is not in use", err)
		}
		out.Communities = append(out.Communities, c)
	}
	for i, text := range large {
		c, err := parseLarge(text)
		if err != nil {
			ok = r.refuse(at(field+".largeCommunityList", i), ReasonParseError, "%v; the rule is not in use", err)
		}
		out.LargeCommunities = append(out.LargeCommunities, c)
	}
	return ok
}

// noVRFs says that routing tables of VRFs are not supported.
const noVRFs = "VRFs are not supported, so %s"
