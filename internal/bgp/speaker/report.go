package speaker

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/bfd"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
)

// Reasons of events about the BGPConfiguration.
const (
	eventRouterIDResolved = "RouterIDResolved"
	eventRouterIDFailed   = "RouterIDResolutionFailed"
	eventPeerGroupMissing = "PeerGroupMissing"
	eventNoMatching       = "NoMatchingNeighbors"
	eventNeighborUp       = "NeighborUp"
	eventNeighborDown     = "NeighborDown"
	eventBFDDown          = "BFDDown"
	eventPrefixLimit      = "PrefixLimitExceeded"
	eventOwnAS            = "NeighborInOwnAS"
	eventSessionTaken     = "SessionTaken"
	kindBGPConfiguration  = "BGPConfiguration"
)

// eventAttributesIgnored is the reason of events about wrong route attributes on a Service or
// a group.
const eventAttributesIgnored = "RouteAttributesIgnored"

// problemEvents maps the reasons of problems to the events that they cause.
var problemEvents = map[string]string{
	peering.ReasonRouterID:            eventRouterIDFailed,
	peering.ReasonPeerGroupMissing:    eventPeerGroupMissing,
	peering.ReasonNoMatchingNeighbors: eventNoMatching,
	peering.ReasonSessionTaken:        eventSessionTaken,
}

// reporter reports changes by log and event. It remembers its reports, so that it reports
// nothing twice.
type reporter struct {
	node   string
	log    *slog.Logger
	events Events

	config     *intent.Config
	routerID   string
	reported   map[string]bool // problems
	complaints map[string]string
	up         map[string]bool // neighbors
	noNode     bool
}

// noteNode records whether the Node of this node is missing, and returns whether that changed.
func (r *reporter) noteNode(ctx context.Context, missing bool) bool {
	if r.noNode == missing {
		return false
	}
	r.noNode = missing
	if missing {
		r.log.WarnContext(ctx, "nodeMissing", "node", r.node)
	}
	return true
}

// about returns the object of the events.
func (r *reporter) about(c *intent.Config) *corev1.ObjectReference {
	if c == nil {
		c = r.config
	}
	if c == nil {
		return nil
	}
	r.config = c
	return &corev1.ObjectReference{
		APIVersion: bgpv1.GroupVersion.String(), Kind: kindBGPConfiguration, Namespace: c.Namespace, Name: c.Name, UID: c.UID,
	}
}

func (r *reporter) event(c *intent.Config, kind, reason, format string, args ...any) {
	if about := r.about(c); about != nil {
		r.events.Eventf(about, kind, reason, format, args...)
	}
}

// resolved reports the router ID.
func (r *reporter) resolved(ctx context.Context, c *intent.Config, d peering.Decision) {
	if !d.OK {
		return
	}
	id := fmt.Sprint(d.State.Global.RouterID, " ", d.RouterIDSource, " ", d.State.Global.ASN)
	if id == r.routerID {
		return
	}
	r.routerID = id
	r.log.InfoContext(ctx, "routerIDResolved", "node", r.node, "routerID", d.State.Global.RouterID, "source", d.RouterIDSource, "asn", d.State.Global.ASN)
	r.event(c, corev1.EventTypeNormal, eventRouterIDResolved, "Node %s has the router ID %s (%s)", r.node, d.State.Global.RouterID, d.RouterIDSource)
}

// problems reports what is wrong with the configuration on this node.
func (r *reporter) problems(ctx context.Context, c *intent.Config, problems []peering.Problem) {
	now := map[string]bool{}
	for _, p := range problems {
		text := p.String()
		now[text] = true
		if r.reported[text] {
			continue
		}
		r.log.WarnContext(ctx, "configProblem", "node", r.node, "reason", p.Reason, "problem", text)
		if reason := problemEvents[p.Reason]; reason != "" {
			r.event(c, corev1.EventTypeWarning, reason, "Node %s: %s", r.node, text)
		}
	}
	for text := range r.reported {
		if !now[text] {
			r.log.InfoContext(ctx, "configProblemGone", "node", r.node, "problem", text)
		}
	}
	r.reported = now
}

// complain reports what is wrong with the route attributes of groups and Services: by log, and by an
// event on the group or the Service.
func (r *reporter) complain(ctx context.Context, in intent.Input) {
	for _, key := range slices.Sorted(maps.Keys(in.Complaints)) {
		text := in.Complaints[key]
		if r.complaints[key] == text {
			continue
		}
		about := in.About[key]
		r.log.WarnContext(ctx, "routeAttributesIgnored", "node", r.node, "about", key, "problem", text)
		r.events.Eventf(&about, corev1.EventTypeWarning, eventAttributesIgnored, "Node %s leaves out what cannot be read: %s", r.node, text)
	}
	r.complaints = in.Complaints
}

// neighbors reports which sessions came up and went down.
func (r *reporter) neighbors(ctx context.Context, c *intent.Config, all []peering.NeighborStatus) {
	now := map[string]bool{}
	for _, n := range all {
		name, up := n.Name(), n.State == peering.Established
		now[name] = up
		was, known := r.up[name]
		switch {
		case up && !was:
			r.log.InfoContext(ctx, "neighborUp", "node", r.node, "neighbor", name, "asn", n.PeerASN)
			r.event(c, corev1.EventTypeNormal, eventNeighborUp, "Node %s has a session with %s", r.node, name)
		case !up && was:
			r.log.WarnContext(ctx, "neighborDown", "node", r.node, "neighbor", name, "state", n.State, "reason", n.LastError)
			r.event(c, corev1.EventTypeWarning, eventNeighborDown, "Node %s has lost the session with %s%s", r.node, name, behind(n.LastError))
		case !known:
			r.log.InfoContext(ctx, "neighborWanted", "node", r.node, "neighbor", name, "asn", n.PeerASN)
		}
	}
	for name, was := range r.up {
		if _, still := now[name]; still {
			continue
		}
		r.log.InfoContext(ctx, "neighborGone", "node", r.node, "neighbor", name)
		if was {
			r.event(c, corev1.EventTypeNormal, eventNeighborDown, "Node %s has no session with %s any more", r.node, name)
		}
	}
	r.up = now
}

// bfdDown reports that BFD lost a neighbor.
func (r *reporter) bfdDown(ctx context.Context, c *intent.Config, e bfd.Event) {
	why := e.Diagnostic
	r.log.WarnContext(ctx, "bfdDown", "node", r.node, "neighbor", e.Peer, "state", e.To, "reason", why)
	r.event(c, corev1.EventTypeWarning, eventBFDDown, "Node %s does not hear %s by BFD: %s", r.node, e.Peer, why)
}

// barred reports which rule a neighbor broke, and how long it must stay away.
func (r *reporter) barred(ctx context.Context, c *intent.Config, name string, p penalty) {
	r.log.WarnContext(ctx, "neighborBarred", "node", r.node, "neighbor", name, "reason", p.why, "pause", pause)
	r.event(c, corev1.EventTypeWarning, p.event, "Node %s has ended the session with %s for %s: %s", r.node, name, pause, p.why)
}

func behind(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}
