package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/service"
)

// Services are the Services of PureLB, and how they fare.
type Services struct {
	Services      []ServiceLine `json:"services"`
	SharedIPs     []SharedIP    `json:"sharedIPs"`
	TotalServices int           `json:"totalServices"`
	TotalIPs      int           `json:"totalIPs"`
	Problems      int           `json:"problems"`
	Unread        []Unread      `json:"unknown,omitempty"`
}

// ServiceLine is one Service.
type ServiceLine struct {
	Namespace  string   `json:"namespace"`
	Service    string   `json:"service"`
	IPs        []string `json:"ips"`
	Pool       string   `json:"pool"`
	Type       string   `json:"type"`
	IPAM       string   `json:"ipam"`
	Announcing []string `json:"announcing"`
	Sharing    string   `json:"sharing"`
	// Status is OK, or a word for what is wrong. Code is the reason that the allocator
	// gives, and Message says what to do.
	Status  string `json:"status"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`

	addresses []netip.Addr
	nodes     []string
}

// SharedIP is an address of several Services.
type SharedIP struct {
	IP       string   `json:"ip"`
	Services []string `json:"services"`
}

// The words for how a Service fares.
const (
	statusOK           = "OK"
	statusPending      = "Pending"
	statusWaiting      = "Waiting"
	statusPartial      = "Partial"
	statusConflict     = "Conflict"
	statusNotAnnounced = "NotAnnounced"
)

// Filter says which Services are meant. The zero Filter means all.
type Filter struct {
	Pool, Node, IP string
	Problems       bool
}

func (f Filter) matches(l ServiceLine) bool {
	return (f.Pool == "" || slices.Contains(strings.Split(l.Pool, ", "), f.Pool)) && (f.Node == "" || slices.Contains(l.nodes, f.Node)) &&
		(f.IP == "" || slices.Contains(l.IPs, f.IP)) && (!f.Problems || l.Status != statusOK)
}

// ServicesOf lists the Services of PureLB that f means.
func ServicesOf(w World, f Filter) Services {
	return newView(w).services(f)
}

func (v *view) services(f Filter) Services {
	all := Services{Services: []ServiceLine{}, SharedIPs: []SharedIP{}, Unread: v.unread(KindServices, KindGroups, KindLeases)}
	ips := map[netip.Addr][]string{}
	for _, r := range v.plan.Requests {
		if r.Owner == service.Anothers {
			continue
		}
		l := v.line(r)
		if !f.matches(l) {
			continue
		}
		all.Services = append(all.Services, l)
		if l.Status != statusOK {
			all.Problems++
		}
		for _, a := range l.addresses {
			ips[a] = append(ips[a], r.Key())
		}
	}
	slices.SortStableFunc(all.Services, func(a, b ServiceLine) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Service, b.Service))
	})
	all.TotalServices, all.TotalIPs = len(all.Services), len(ips)
	for a, holders := range ips {
		if len(holders) > 1 {
			all.SharedIPs = append(all.SharedIPs, SharedIP{a.String(), holders})
		}
	}
	slices.SortFunc(all.SharedIPs, func(a, b SharedIP) int { return cmp.Compare(a.IP, b.IP) })
	return all
}

// line says how the Service of r fares.
func (v *view) line(r service.Request) ServiceLine {
	svc := v.objects[r.Key()]
	l := ServiceLine{Namespace: r.Namespace, Service: r.Name, Pool: r.From, Type: r.PoolType, Sharing: r.SharingKey,
		addresses: r.Shown, IPs: []string{}, Announcing: []string{}, Status: statusOK}
	if len(r.Shown) > 0 {
		l.IPAM = "Cluster"
	}
	for _, a := range r.Shown {
		l.IPs = append(l.IPs, a.String())
		if g, _, ok := v.state.Config.Groups.GroupOf(a); !ok {
			if g, ok = v.state.Config.Groups.Group(r.From); ok && g.Backend != "" {
				l.IPAM = g.Backend
			}
		}
	}
	for _, o := range v.outlooks[r.Key()] {
		if o.Where == announce.Remote {
			l.Announcing = append(l.Announcing, "all nodes")
			l.nodes = append(l.nodes, v.liveNodes()...)
		}
	}
	for _, s := range slots(svc) {
		if slices.Contains(r.Shown, s.Address) {
			l.Announcing, l.nodes = append(l.Announcing, s.Node+" ("+s.Interface+")"), append(l.nodes, s.Node)
		}
	}
	l.Announcing = slices.Compact(l.Announcing)
	l.Status, l.Code, l.Message = v.fares(r)
	return l
}

// fares says how the Service of r fares, by the first thing that is wrong.
func (v *view) fares(r service.Request) (status, code, message string) {
	choice := v.plan.Choices[ipam.Owner(r.Key())]
	switch {
	case r.Leaving:
		return statusOK, "", "it is being deleted"
	case len(r.Shown) == 0 && choice.Refusal != nil:
		return statusWaiting, choice.Result.Reason, choice.Result.Message
	case len(r.Shown) == 0:
		return statusPending, "", v.whyPending(r, choice)
	case choice.Result.Reason == ipam.ReasonConflict:
		return statusConflict, choice.Result.Reason, choice.Result.Message
	}
	for _, o := range v.outlooks[r.Key()] {
		if why := v.unannounced(o); why != "" {
			return statusNotAnnounced, "", o.IP.String() + ": " + why
		}
	}
	if choice.Refusal != nil {
		return statusPartial, choice.Result.Reason, choice.Result.Message
	}
	return statusOK, "", ""
}

// whyPending says what keeps a Service waiting that should have been served.
func (v *view) whyPending(r service.Request, choice ipam.Choice) string {
	text := "it is to get " + texts(choice.Result.Addresses) + " from " + choice.Result.From
	if c := meta.FindStatusCondition(v.objects[r.Key()].Status.Conditions, service.ConditionAllocated); c != nil && c.Reason != ipam.ReasonAllocated {
		return text + ", and its condition still says " + c.Reason
	}
	if v.knows(KindPods) && components(v.Pods).Allocator.Running == 0 {
		return text + ", but no allocator is ready"
	}
	return text + ", and the allocator has not given it yet"
}

// unannounced says why the address of o reaches no node, or "".
func (v *view) unannounced(o announce.Outlook) string {
	switch {
	case !v.knows(KindLeases):
		return ""
	case o.Where == announce.Nowhere:
		return "no node announces it: its group is local, and no node has an interface in its network"
	case o.Where == announce.Remote:
		if len(v.liveNodes()) == 0 {
			return "no node announces it: no agent lives"
		}
		return ""
	}
	at, announced := service.SlotOf(slots(v.objects[o.Service]), o.IP)
	switch {
	case announced && v.lives(at.Node):
		return ""
	case announced && o.Choice.Node != "":
		return fmt.Sprintf("node %s, which announced it, renews its Lease no more; %s is to take it", at.Node, o.Choice.Node)
	case announced:
		return fmt.Sprintf("node %s, which announced it, renews its Lease no more, and no other node has an interface in its network", at.Node)
	case o.Undecided:
		return "no node announces it yet; which node is to depends on the endpoints of the Service"
	case o.Choice.Node == "":
		return "no node announces it: no live node has an interface in its network"
	}
	return "no node announces it yet; " + o.Choice.Node + " is to"
}

// liveNodes are the nodes with a Lease that counts.
func (v *view) liveNodes() []string {
	var live []string
	for _, n := range v.nodes {
		if n.Alive {
			live = append(live, n.Node)
		}
	}
	return live
}

// Tables shows s.
func (s Services) Tables() []Table {
	t := Table{Head: []string{"NAMESPACE", "SERVICE", "IPS", "POOL", "TYPE", "IPAM", "ANNOUNCING", "SHARING", "STATUS"}}
	var notes Table
	for _, l := range s.Services {
		status := l.Status
		if l.Code != "" {
			status += " (" + l.Code + ")"
		}
		t.Rows = append(t.Rows, []string{l.Namespace, l.Service, orDash(strings.Join(l.IPs, ",")), orDash(l.Pool), orDash(l.Type), orDash(l.IPAM),
			orDash(strings.Join(l.Announcing, ",")), orDash(l.Sharing), status})
		if l.Status != statusOK {
			notes.Lines = append(notes.Lines, l.Namespace+"/"+l.Service+": "+l.Message)
		}
	}
	tables := []Table{t}
	if len(notes.Lines) > 0 {
		tables = append(tables, notes)
	}
	return append(tables, unreadTable(s.Unread)...)
}
