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
	// bgpProtocol is RTPROT_BGP. Numbers below leastProtocol belong to the kernel and to
	// routes that people add by hand.
	bgpProtocol   = 186
	leastProtocol = 5
)

// imports reads which addresses become routes outside of VRFs.
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
	r.d.Import = ImportRules{Enabled: true, Patterns: r.patterns(field, in.InterfaceList), VRF: in.VRF}
	if in.VRF != "" && !r.hasVRF(in.VRF) {
		r.note(field+".vrf", ReasonNotFound, "there is no VRF %s that is well in spec.vrfs, so nothing is imported", quote(in.VRF))
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
	var rules []ExportRule
	for i, rule := range in.Rules {
		if read, ok := r.exportRule(at(field+".rules", i), rule, rules); ok {
			rules = append(rules, read)
		}
	}
	r.d.Export = append(r.d.Export, rules...)
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

// exportRule reads one rule. before are the rules before it.
func (r *reader) exportRule(field string, in bgpv1.ExportRule, before []ExportRule) (ExportRule, bool) {
	out := ExportRule{
		Name: in.Name, Device: in.VRF, ValidateNextHop: in.ValidateNexthop == nil || *in.ValidateNexthop,
		AllowDefault: in.AllowDefaultRoute, Path: field,
	}
	ok := true
	switch {
	case in.Name == "":
		ok = r.refuse(field+".name", ReasonParseError, "the rule has no name, and is not in use: write one")
	case slices.ContainsFunc(before, func(e ExportRule) bool { return e.Name == in.Name }):
		ok = r.refuse(field+".name", ReasonDuplicate, "%s is the name of a rule before, so this one is not in use: write another", quote(in.Name))
	}
	return out, r.destination(field, "vrf", "tableId", &out, in.TableID, in.Metric) &&
		r.filters(field, &out, in.CommunityList, in.LargeCommunityList) && ok
}

// destination reads the destination of routes.
func (r *reader) destination(field, deviceField, tableField string, out *ExportRule, table, metric int64) bool {
	if out.Device != "" && !isInterface(out.Device) {
		return r.refuse(field+"."+deviceField, ReasonParseError, badInterface, quote(out.Device))
	}
	if table < 0 || table > math.MaxUint32 {
		return r.refuse(field+"."+tableField, ReasonParseError, "%d is not the number of a routing table: write one from 0 (the main one) to 4294967295", table)
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

// filters reads which routes a rule selects. A mistake makes the rule useless, because
// without the filter it would select more routes.
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

// vrfs reads the VRFs.
func (r *reader) vrfs() {
	for i, in := range r.spec.VRFs {
		field := at("spec.vrfs", i)
		if !r.vrf(field, in) {
			continue
		}
		r.vrfImport(field+".netlinkImport", in)
		r.vrfExport(field+".netlinkExport", in)
	}
}

func (r *reader) vrf(field string, in bgpv1.VRF) bool {
	switch {
	case in.Name == "":
		return r.refuse(field+".name", ReasonParseError, "the VRF has no name, and is not in use: write one")
	case r.hasVRF(in.Name):
		return r.refuse(field+".name", ReasonDuplicate, "%s is the name of a VRF before, so this one is not in use: write another", quote(in.Name))
	case !isRouteTarget(in.RD):
		return r.refuse(field+".rd", ReasonParseError, badTarget, quote(in.RD))
	}
	ok := true
	for i, target := range in.ImportRT {
		if !isRouteTarget(target) {
			ok = r.refuse(at(field+".importRt", i), ReasonParseError, badTarget, quote(target))
		}
	}
	for i, target := range in.ExportRT {
		if !isRouteTarget(target) {
			ok = r.refuse(at(field+".exportRt", i), ReasonParseError, badTarget, quote(target))
		}
	}
	if ok {
		r.d.State.VRFs = append(r.d.State.VRFs, VRF{
			Name: in.Name, RD: in.RD, Path: field,
			ImportRT: slices.Clone(in.ImportRT), ExportRT: slices.Clone(in.ExportRT),
		})
	}
	return ok
}

const badTarget = "%s is neither the number of an AS and a number, such as 64512:100, nor an IPv4 address and a number, such as 192.0.2.1:100; the VRF is not in use"

func (r *reader) hasVRF(name string) bool {
	return slices.ContainsFunc(r.d.State.VRFs, func(v VRF) bool { return v.Name == name })
}

func (r *reader) vrfImport(field string, vrf bgpv1.VRF) {
	in := vrf.NetlinkImport
	switch {
	case in == nil:
	case !in.Enabled:
		if len(in.InterfaceList) > 0 {
			r.note(field, ReasonAdjusted, notEnabled)
		}
	case len(in.InterfaceList) == 0:
		r.note(field+".interfaceList", ReasonAdjusted, "nothing is imported into the VRF without an interface: add one")
	default:
		if patterns := r.patterns(field, in.InterfaceList); len(patterns) > 0 {
			r.d.VRFImports = append(r.d.VRFImports, ImportRules{Enabled: true, Patterns: patterns, VRF: vrf.Name})
		}
	}
}

func (r *reader) vrfExport(field string, vrf bgpv1.VRF) {
	in := vrf.NetlinkExport
	if in == nil {
		return
	}
	if !in.Enabled {
		if in.LinuxVRF != "" || in.LinuxTableID != 0 || len(in.CommunityList)+len(in.LargeCommunityList) > 0 {
			r.note(field, ReasonAdjusted, notEnabled)
		}
		return
	}
	out := ExportRule{
		Name: "vrf " + vrf.Name, VRF: vrf.Name, Device: in.LinuxVRF,
		ValidateNextHop: in.ValidateNexthop == nil || *in.ValidateNexthop, Path: field,
	}
	if in.LinuxVRF == "" && in.LinuxTableID == 0 {
		out.Device = vrf.Name
	}
	if r.destination(field, "linuxVrf", "linuxTableId", &out, in.LinuxTableID, in.Metric) &&
		r.filters(field, &out, in.CommunityList, in.LargeCommunityList) {
		r.d.Export = append(r.d.Export, out)
	}
}
