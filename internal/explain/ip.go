package explain

import (
	"fmt"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/service"
)

// isShown reports whether a is in the status of the Service of r.
func (v *view) isShown(r service.Request, a netip.Addr) bool { return slices.Contains(r.Shown, a) }

// sharers returns the other Services that have an address of the Service of r.
func (v *view) sharers(a netip.Addr, r service.Request) (names []string) {
	for _, o := range v.plan.Cluster.Store.Holders(a) {
		if string(o) != r.Key() {
			names = append(names, string(o))
		}
	}
	return names
}

// IP explains an address: its group, the Service that holds it, the node that announces it,
// and whether a Service can have it.
func IP(w World, text string) (Story, error) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return Story{}, fmt.Errorf("%q is not an IP address", text)
	}
	return newView(w).ip(a.Unmap()), nil
}

func (v *view) ip(a netip.Addr) Story {
	s := Story{Subject: a.String(), Unread: v.unread(KindServices, KindGroups, KindLeases, KindNodes, KindNetworks)}
	holders := v.held.Store.Holders(a)
	why := v.held.Unfree(a)
	g, p, grouped := v.state.Config.Groups.GroupOf(a)
	holder, _ := v.held.Store.Holder(a)
	blocked, isBlocked := v.held.Store.Withheld(a, holder)
	coming := v.heldUnshown(a, holders)
	unknown := v.unknown(KindServices)
	if v.absent(KindServices) {
		unknown = ""
	}
	switch {
	case len(holders) > 0 && isBlocked:
		s.setSummary(true, ipam.ReasonConflict, fmt.Sprintf("%s is held by %s, and it is also %s", a, holders[0], blocked))
	case len(holders) > 0:
		s.setSummary(false, "", fmt.Sprintf("%s is held by %s", a, holders[0]))
	case len(coming) > 0:
		s.setSummary(false, "", fmt.Sprintf("%s is held by %s, according to the allocator; its status does not show it yet", a, list(coming)))
	case unknown != "":
		s.setSummary(true, "", fmt.Sprintf("which Service holds %s is %s", a, unknown))
	case !grouped && !v.knows(KindGroups):
		s.setSummary(true, "", fmt.Sprintf("which ServiceGroup has %s is %s", a, v.unknown(KindGroups)))
	case !grouped && isBlocked:
		s.setSummary(false, "", fmt.Sprintf("%s is %s, and in no usable ServiceGroup", a, blocked))
	case !grouped:
		s.setSummary(false, ipam.ReasonOutside, fmt.Sprintf("%s is in no usable ServiceGroup, so no Service gets it", a))
	case why != "":
		s.setSummary(false, "", fmt.Sprintf("%s of ServiceGroup %s is given to no Service, because %s", a, g.DisplayName(), why))
	case v.absent(KindServices):
		s.setSummary(false, "", fmt.Sprintf("%s of ServiceGroup %s is free if the cluster has no Service that has it: the files have no Services", a, g.DisplayName()))
	case v.unknown(KindLeases, KindNodes) != "":
		s.setSummary(false, "", fmt.Sprintf("no Service has %s of ServiceGroup %s; whether a node has it is %s", a, g.DisplayName(), v.unknown(KindLeases, KindNodes)))
	default:
		s.setSummary(false, "", fmt.Sprintf("%s of ServiceGroup %s is free", a, g.DisplayName()))
	}
	if grouped {
		s.add("Group", fmt.Sprintf("%s: range %s in %s, %s", g.DisplayName(), p.Text, p.Subnet, v.typeOf(g)))
	}
	var lines []string
	for _, o := range holders {
		lines = append(lines, string(o))
	}
	s.add("Services", lines...)
	if len(holders) == 0 {
		s.Unread = v.unheardAllocator(s.Unread)
	}
	v.addOutlook(&s, a)
	return s
}

// addOutlook says which nodes announce a.
func (v *view) addOutlook(s *Story, a netip.Addr) {
	for _, o := range v.addresses() {
		if o.IP != a {
			continue
		}
		if why := v.unannounced(o); why != "" {
			s.setSummary(true, s.Code, s.Summary+", and "+why)
		} else {
			s.Summary += ", and " + v.whereabouts(o)
		}
		if o.Where == announce.Local {
			s.add("Nodes", v.candidacies(o)...)
		}
		v.addRoutes(s, []announce.Outlook{o})
		v.addAgents(s, []announce.Outlook{o})
		if s.Problem {
			s.Unread = v.unheardAgents(s.Unread)
		}
		return
	}
}
