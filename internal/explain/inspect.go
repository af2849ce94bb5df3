package explain

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/service"
)

// Inspection is everything known about one Service, part by part.
type Inspection struct {
	Service string `json:"service"`
	// Status is as in Services.
	Status        string           `json:"status"`
	Allocations   []Allocation     `json:"allocations"`
	Elections     []Poll           `json:"elections"`
	Announcements []Announcement   `json:"announcements"`
	Sharing       *Sharing         `json:"sharing"`
	Endpoints     *Endpoints       `json:"endpoints"`
	BGP           []CrossReference `json:"bgp"`
	Diagnosis     Diagnosis        `json:"diagnosis"`
	Unread        []Unread         `json:"unknown,omitempty"`
}

// Allocation is an address of a Service.
type Allocation struct {
	IP     string `json:"ip"`
	Family string `json:"family"`
	Pool   string `json:"pool"`
	Range  string `json:"range"`
	Type   string `json:"type"`
}

// Poll is how the node of a local address is chosen.
type Poll struct {
	IP     string `json:"ip"`
	Winner string `json:"winner"`
	Why    string `json:"why"`
	// Candidates says for each node why it is chosen, or why not.
	Candidates []string `json:"candidates"`
}

// Announcement says where an address of a Service is.
type Announcement struct {
	IP        string `json:"ip"`
	Node      string `json:"node"`
	Interface string `json:"interface"`
	Text      string `json:"text"`
}

// Sharing names the Services with which a Service shares its addresses.
type Sharing struct {
	Key  string   `json:"key"`
	With []string `json:"with"`
}

// Endpoints are the nodes with endpoints of a Service. Endpoints outside of the cluster have
// the node "".
type Endpoints struct {
	Ready  []string `json:"ready"`
	Ending []string `json:"ending"`
}

// The words of an Inspection beside those of Services.
const (
	statusAnothers    = "NotPureLB"
	reasonNoEndpoints = "NoEndpoints"
	// reasonNoRoute: no router knows a remote address.
	reasonNoRoute = "NoRoute"
)

// Diagnosis says what is wrong, if there is a problem.
type Diagnosis struct {
	Reason  string   `json:"reason"`
	Details []string `json:"details"`
}

// Inspect returns everything about a Service, "namespace/name".
func Inspect(w World, key string) (i Inspection, problem bool, err error) {
	story, err := Service(w, key)
	if err != nil {
		return Inspection{}, false, err
	}
	v := newView(w)
	for _, r := range v.plan.Requests {
		if r.Key() == key {
			i = v.inspect(r, story)
		}
	}
	return i, story.Problem || i.Diagnosis.Reason == reasonNoEndpoints, nil
}

func (v *view) inspect(r service.Request, story Story) Inspection {
	i := Inspection{
		Service: r.Key(), Allocations: []Allocation{}, Elections: []Poll{}, Announcements: []Announcement{}, BGP: []CrossReference{}, Unread: story.Unread,
		Diagnosis: Diagnosis{Reason: statusOK, Details: []string{story.Summary}},
	}
	if r.Owner == service.Anothers {
		i.Status, i.Diagnosis.Reason = statusAnothers, statusAnothers
		return i
	}
	var code string
	i.Status, code, _ = v.serviceState(r)
	if i.Status != statusOK {
		i.Diagnosis.Reason = cmp.Or(code, i.Status)
	}
	for _, o := range v.outlooks[r.Key()] {
		v.inspectAddress(&i, r, o)
	}
	if story.Problem && i.Diagnosis.Reason == statusOK {
		i.Diagnosis.Reason = reasonNoRoute
	}
	v.inspectEndpoints(&i, r)
	return i
}

func (v *view) inspectAddress(i *Inspection, r service.Request, o announce.Outlook) {
	a := Allocation{IP: o.IP.String(), Family: addr.FamilyOf(o.IP).String(), Pool: v.group(o.IP, r.From), Type: r.PoolType}
	if _, p, ok := v.state.Config.Groups.GroupOf(o.IP); ok {
		a.Range = p.Text
	}
	i.Allocations = append(i.Allocations, a)
	said := Announcement{IP: a.IP, Text: v.whereabouts(o)}
	if at, ok := service.SlotOf(slots(v.objects[r.Key()]), o.IP); ok {
		said.Node, said.Interface = at.Node, at.Interface
	}
	i.Announcements = append(i.Announcements, said)
	if o.Where == announce.Local {
		p := Poll{IP: a.IP, Candidates: v.candidacies(o)}
		if !o.Undecided {
			p.Winner, p.Why = o.Choice.Node, o.Why()
		}
		i.Elections = append(i.Elections, p)
	}
	if o.Where == announce.Remote && v.knows(KindNodeStatuses) {
		d := Dataplane{}
		d.crossReference(v, DataplaneFilter{})
		for _, c := range d.CrossReference {
			if c.Service == r.Key() && c.IP == a.IP {
				i.BGP = append(i.BGP, c)
			}
		}
	}
	if r.SharingKey != "" {
		v.inspectSharing(i, r, o.IP)
	}
}

func (v *view) inspectSharing(i *Inspection, r service.Request, a netip.Addr) {
	if i.Sharing == nil {
		i.Sharing = &Sharing{Key: r.SharingKey, With: []string{}}
	}
	for _, o := range v.plan.Cluster.Store.Holders(a) {
		if o != ipam.Owner(r.Key()) {
			i.Sharing.With = append(i.Sharing.With, string(o))
		}
	}
}

func (v *view) inspectEndpoints(i *Inspection, r service.Request) {
	if why := v.unknown(KindEndpoints); why != "" {
		i.Diagnosis.Details = append(i.Diagnosis.Details, "which endpoints it has is "+why)
		return
	}
	ready, ending := announce.EndpointNodes(v.EndpointSlices, map[string]bool{r.Key(): true})
	i.Endpoints = &Endpoints{Ready: nodesOf(ready), Ending: nodesOf(ending)}
	for _, a := range r.Shown {
		f := addr.FamilyOf(a)
		if len(ready[announce.ServiceFamily{Service: r.Key(), Family: f}]) > 0 {
			continue
		}
		i.Diagnosis.Details = append(i.Diagnosis.Details, fmt.Sprintf("it has no ready %s endpoint, so what reaches %s is not answered", f, a))
		if i.Diagnosis.Reason == statusOK {
			i.Diagnosis.Reason = reasonNoEndpoints
		}
	}
}

// nodesOf returns the nodes of endpoints of any family.
func nodesOf(e announce.Endpoints) []string {
	nodes := slices.Concat(slices.Collect(maps.Values(e))...)
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// Tables returns the tables of i.
func (i Inspection) Tables() []Table {
	tables := []Table{{Lines: append([]string{i.Service + ": " + i.Diagnosis.Reason}, indented(i.Diagnosis.Details)...)}}
	add := func(title string, lines []string) {
		if len(lines) > 0 {
			tables = append(tables, Table{Title: title, Lines: indented(lines)})
		}
	}
	var lines []string
	for _, a := range i.Allocations {
		lines = append(lines, fmt.Sprintf("%s from %s, range %s, %s", a.IP, orDash(a.Pool), orDash(a.Range), orDash(a.Type)))
	}
	add("Allocations", lines)
	for _, p := range i.Elections {
		add("Election for "+p.IP, p.Candidates)
	}
	lines = nil
	for _, a := range i.Announcements {
		lines = append(lines, a.IP+": "+a.Text)
	}
	add("Announcements", lines)
	lines = nil
	for _, c := range i.BGP {
		line := fmt.Sprintf("%s: a route is announced by %s", c.IP, orDash(strings.Join(c.AnnouncedBy, ", ")))
		if len(c.MissingOn) > 0 {
			line += ", and not by " + strings.Join(c.MissingOn, ", ")
		}
		lines = append(lines, line)
	}
	add("BGP", lines)
	if i.Sharing != nil {
		add("Sharing", []string{fmt.Sprintf("by the key %q with %s", i.Sharing.Key, cmp.Or(list(i.Sharing.With), "no other Service"))})
	}
	if i.Endpoints != nil {
		add("Endpoints", []string{"ready on " + onNodes(i.Endpoints.Ready), "ending on " + onNodes(i.Endpoints.Ending)})
	}
	return append(tables, unreadTable(i.Unread)...)
}

// onNodes lists nodes of endpoints.
func onNodes(nodes []string) string {
	var names []string
	for _, n := range nodes {
		names = append(names, cmp.Or(n, "no node (outside of the cluster)"))
	}
	return cmp.Or(list(names), "no node")
}

func indented(lines []string) []string {
	var all []string
	for _, l := range lines {
		all = append(all, "  "+l)
	}
	return all
}
