package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/service"
)

// Inspection is everything known about one Service, part by part, for scripts.
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

// Inspect explains a Service, "namespace/name", as Service does, with its endpoints and with the parts of an
// Inspection.
func Inspect(w World, key string) (Story, error) {
	story, err := Service(w, key)
	if err != nil {
		return Story{}, err
	}
	v := newView(w)
	v.inspect(&story, v.requests[key])
	return story, nil
}

func (v *view) inspect(s *Story, r service.Request) {
	i := &Inspection{Service: r.Key()}
	s.Inspection, i.Status, i.Diagnosis.Reason = i, statusAnothers, statusAnothers
	if r.Owner != service.Anothers {
		i.Status, i.Diagnosis.Reason, _ = v.serviceState(r)
		i.Diagnosis.Reason = cmp.Or(i.Diagnosis.Reason, i.Status)
		if s.Problem && i.Status == statusOK {
			i.Diagnosis.Reason = reasonNoRoute
		}
		for _, o := range v.outlooks[r.Key()] {
			v.inspectAddress(i, r, o)
		}
		v.inspectEndpoints(s, r)
	}
	i.Diagnosis.Details = []string{s.Summary}
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
		i.BGP = append(i.BGP, v.routeTo(o, v.routing("")).CrossReference)
	}
	if r.SharingKey == "" {
		return
	}
	if i.Sharing == nil {
		i.Sharing = &Sharing{Key: r.SharingKey}
	}
	i.Sharing.With = append(i.Sharing.With, v.sharers(o.IP, r)...)
}

func (v *view) inspectEndpoints(s *Story, r service.Request) {
	if why := v.unknown(KindEndpoints); why != "" {
		s.add("Endpoints", "which endpoints it has is "+why)
		return
	}
	ready, ending := announce.EndpointNodes(v.EndpointSlices, map[string]bool{r.Key(): true})
	s.Endpoints = &Endpoints{Ready: nodesOf(ready), Ending: nodesOf(ending)}
	s.add("Endpoints", "ready on "+onNodes(s.Endpoints.Ready), "ending on "+onNodes(s.Endpoints.Ending))
	for _, a := range r.Shown {
		f := addr.FamilyOf(a)
		if len(ready[announce.ServiceFamily{Service: r.Key(), Family: f}]) > 0 {
			continue
		}
		if s.Diagnosis.Reason == statusOK {
			s.Diagnosis.Reason = reasonNoEndpoints
		}
		s.setSummary(true, s.Code, fmt.Sprintf("%s; it has no ready %s endpoint, so what reaches %s is not answered", s.Summary, f, a))
	}
}

// nodesOf returns the nodes of endpoints of any family.
func nodesOf(e announce.Endpoints) []string {
	nodes := slices.Concat(slices.Collect(maps.Values(e))...)
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// onNodes lists nodes of endpoints.
func onNodes(nodes []string) string {
	var names []string
	for _, n := range nodes {
		names = append(names, cmp.Or(n, "no node (outside of the cluster)"))
	}
	return cmp.Or(list(names), "no node")
}
