package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	corev1 "k8s.io/api/core/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/service"
)

// routing is how the nodes announce remote addresses by BGP.
type routing struct {
	// nodes are those that report all their routes. routes holds these routes.
	nodes  []string
	routes map[string][]addr.Range
	// unsure are the other speakers, and why it is unknown what they announce.
	unsure map[string]string
	// by holds the speakers, by node.
	by map[string]bgpv1.BGPNodeStatusStatus
}

// routing reads the BGPNodeStatuses of the nodes that import addresses: of one node, or of all without one.
func (v *view) routing(node string) routing {
	r := routing{routes: map[string][]addr.Range{}, unsure: map[string]string{}, by: map[string]bgpv1.BGPNodeStatusStatus{}}
	for _, n := range v.speakers(node) {
		if n.NetlinkImport == nil || !n.NetlinkImport.Enabled {
			continue
		}
		r.by[n.NodeName] = n
		if why := v.silence(n); why != "" {
			r.unsure[n.NodeName] = why
			continue
		}
		if n.RIB == nil {
			r.unsure[n.NodeName] = "its BGPNodeStatus lists no routes"
			continue
		}
		all, complete := announcedBy(*n.RIB)
		if !complete {
			r.unsure[n.NodeName] = "its BGPNodeStatus does not list all routes"
			continue
		}
		if len(all) == 0 && v.excluded(n.NodeName) {
			continue // it withdraws its routes while other nodes serve
		}
		r.nodes = append(r.nodes, n.NodeName)
		r.routes[n.NodeName] = all
	}
	return r
}

// announcedBy returns the destinations of all routes of a node. It returns false if the status
// lacks some.
func announcedBy(rib bgpv1.NodeRIB) (all []addr.Range, complete bool) {
	texts := rib.LocalRanges
	if len(texts) == 0 {
		if rib.Truncated {
			return nil, false
		}
		for _, r := range rib.LocalRoutes {
			texts = append(texts, r.Prefix)
		}
	}
	for _, text := range texts {
		if r, _, err := addr.ParseRange(text); err == nil {
			all = append(all, r)
		}
	}
	return all, true
}

// announces reports whether a node announces a route to ip.
func (r routing) announces(node string, ip netip.Addr) bool {
	return slices.ContainsFunc(r.routes[node], func(to addr.Range) bool { return to.Contains(ip) })
}

// excluded reports whether a node has the exclude label.
func (v *view) excluded(node string) bool {
	_, labelled := v.labelsOf(node)[corev1.LabelNodeExcludeBalancers]
	return labelled
}

// receivers returns the neighbors of a node that receive its routes of a family.
func receivers(n bgpv1.BGPNodeStatusStatus, f addr.Family) []bgpv1.NodeNeighbor {
	return slices.DeleteFunc(slices.Clone(n.Neighbors), func(n bgpv1.NodeNeighbor) bool { return !receives(n, f) })
}

// receives reports whether a neighbor receives routes of a family. An older speaker reports only the
// number of all routes.
func receives(n bgpv1.NodeNeighbor, f addr.Family) bool {
	if n.State != established || len(n.Families) == 0 {
		return n.State == established && n.PrefixesSent > 0
	}
	return slices.ContainsFunc(n.Families, func(o bgpv1.NeighborFamily) bool {
		return o.PrefixesSent > 0 && (o.Family == "ipv6-unicast") == (f == addr.V6)
	})
}

// addRoutes adds which nodes announce routes to the remote addresses of outlooks by BGP, and which
// routers receive them. If no router knows an address, no outside client reaches it.
func (v *view) addRoutes(s *Story, outlooks []announce.Outlook) {
	if !slices.ContainsFunc(outlooks, func(o announce.Outlook) bool { return o.Where == announce.Remote }) {
		return
	}
	if !v.knows(KindNodeStatuses) {
		if !v.absent(KindNodeStatuses) {
			s.Unread = append(slices.Clone(s.Unread), v.unread(KindNodeStatuses)...)
		}
		return
	}
	r := v.routing("")
	if len(r.by) == 0 {
		return // Without BGP, routers know the way by other means.
	}
	for _, o := range outlooks {
		if o.Where == announce.Remote && !o.Idle {
			v.addRoute(s, o, r)
		}
	}
}

// CrossReference is a remote address of a Service, and the nodes that do and do not
// announce a route to it.
type CrossReference struct {
	Service     string   `json:"service"`
	IP          string   `json:"ip"`
	AnnouncedBy []string `json:"announcedBy"`
	MissingOn   []string `json:"missingOn"`
}

// route is which nodes announce a route to an address, and to which routers. The sentences known, missing and
// unsure have one line for each node.
type route struct {
	CrossReference
	known, missing, unsure, routers []string
}

// routeTo returns the route to the address of o.
func (v *view) routeTo(o announce.Outlook, r routing) route {
	to := route{CrossReference: CrossReference{Service: o.Service, IP: o.IP.String()}}
	for _, n := range r.nodes {
		receive := receivers(r.by[n], addr.FamilyOf(o.IP))
		named := v.named(o.IP, n, receive)
		if r.announces(n, o.IP) {
			to.AnnouncedBy = append(to.AnnouncedBy, n)
		} else {
			to.MissingOn = append(to.MissingOn, n)
		}
		switch {
		case !r.announces(n, o.IP) && v.tooOld(r.by[n], o):
			to.unsure = append(to.unsure, "what "+n+" announces is unknown: its BGPNodeStatus is older than the address")
		case !r.announces(n, o.IP) && o.Narrow:
			to.missing = append(to.missing, n+" announces no route to it, as it does if no endpoint of the Service is there"+sessionTrouble(r.by[n]))
		case !r.announces(n, o.IP):
			to.missing = append(to.missing, n+" announces no route to it"+sessionTrouble(r.by[n]))
		case len(receive) == 0:
			to.missing = append(to.missing, n+" has a route to it and tells it to no router"+sessionTrouble(r.by[n]))
		case len(named) == 0:
			to.missing = append(to.missing, n+" has a route to it and tells it to no router: spec.bgp.peers of its ServiceGroup names no neighbor of "+n)
		default:
			to.known = append(to.known, n+" announces it to "+strings.Join(named, ", "))
			to.routers = append(to.routers, named...)
		}
	}
	for n, why := range r.unsure {
		to.unsure = append(to.unsure, "what "+n+" announces is unknown: "+why)
	}
	slices.Sort(to.unsure)
	slices.Sort(to.routers)
	to.routers = slices.Compact(to.routers)
	return to
}

// addRoute adds which nodes announce a route to the address of o.
func (v *view) addRoute(s *Story, o announce.Outlook, r routing) {
	to := v.routeTo(o, r)
	switch {
	case s.Problem: // The first line names one cause.
	case len(to.known) > 0:
		s.Summary += fmt.Sprintf("; %s is announced by BGP to %s, by %d of %d nodes", o.IP, list(to.routers), len(to.known), len(r.by))
		if v.objects[o.Service].Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
			s.Summary += ", and its clients keep their endpoint only if the routers choose a node by the client's address alone, without ports (sessionAffinity)"
		}
	case len(to.unsure) > 0:
		s.Summary += fmt.Sprintf("; whether a router knows %s is unknown", o.IP)
	case len(to.missing) == 0:
		s.setSummary(true, s.Code, fmt.Sprintf("%s, but no router knows %s: each node with a speaker has the label %s, and withdraws its routes", s.Summary, o.IP, corev1.LabelNodeExcludeBalancers))
	default:
		s.setSummary(true, s.Code, fmt.Sprintf("%s, but no router knows %s: %s", s.Summary, o.IP, to.missing[0]))
	}
	s.add("Routes to "+o.IP.String(), atMost(listedLines, slices.Concat(to.missing, to.unsure, to.known), "and %d more nodes")...)
}

// settling is how long a speaker may take to announce a new address. It also covers small
// differences of clocks.
const settling = 10 * time.Second

// tooOld reports whether a speaker wrote its status before it could know the address of o. A
// speaker writes its status each minute. It also writes at once after a change, unless it has just
// written.
func (v *view) tooOld(s bgpv1.BGPNodeStatusStatus, o announce.Outlook) bool {
	c := meta.FindStatusCondition(v.objects[o.Service].Status.Conditions, service.ConditionAllocated)
	return c != nil && s.LastUpdated != nil && s.LastUpdated.Time.Before(c.LastTransitionTime.Add(settling))
}

// sessionTrouble returns the end of a sentence: the first session of a speaker that is not
// established, or "".
func sessionTrouble(s bgpv1.BGPNodeStatusStatus) string {
	for _, n := range s.Neighbors {
		if n.State != established {
			return fmt.Sprintf(": its neighbor %s is %s (\"kubectl purelb bgp sessions --node %s\" says why)", n.Address, n.State, s.NodeName)
		}
	}
	if len(s.Neighbors) == 0 {
		return ": it has no BGP neighbor"
	}
	return ""
}
