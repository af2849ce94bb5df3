package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// Services lists the Services of PureLB with their states.
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
	Namespace  string   `json:"namespace" col:"NAMESPACE"`
	Service    string   `json:"service" col:"SERVICE"`
	IPs        []string `json:"ips" col:"IPS"`
	Pool       string   `json:"pool" col:"POOL"`
	Type       string   `json:"type" col:"TYPE"`
	IPAM       string   `json:"ipam" col:"IPAM"`
	Announcing []string `json:"announcing" col:"ANNOUNCING"`
	Sharing    string   `json:"sharing" col:"SHARING"`
	// Status is OK, or a word for the problem. Code is the reason that the allocator gives.
	// Message says what to do.
	Status  string `json:"status"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`

	state     string `col:"STATUS"`
	addresses []netip.Addr
	nodes     []string
}

// SharedIP is an address that several Services share.
type SharedIP struct {
	IP       string   `json:"ip"`
	Services []string `json:"services"`
}

// The states of a Service.
const (
	statusOK           = "OK"
	statusPending      = "Pending"
	statusWaiting      = "Waiting"
	statusPartial      = "Partial"
	statusConflict     = "Conflict"
	statusNotAnnounced = "NotAnnounced"
	statusContested    = "Contested"
	statusUnknown      = "Unknown"
)

// Filter selects Services. The zero Filter selects all.
type Filter struct {
	Namespace, Pool, Node, IP string
	Problems                  bool
}

func (f Filter) matches(l ServiceLine) bool {
	return (f.Namespace == "" || l.Namespace == f.Namespace) && (f.Pool == "" || slices.Contains(strings.Split(l.Pool, ", "), f.Pool)) && (f.Node == "" || slices.Contains(l.nodes, f.Node)) &&
		(f.IP == "" || slices.Contains(l.IPs, f.IP)) && (!f.Problems || l.Status != statusOK)
}

// ServicesOf lists the Services of PureLB that f selects.
func ServicesOf(w World, f Filter) (Services, error) {
	if err := w.needs("which Services there are", KindServices); err != nil {
		return Services{}, err
	}
	v := newView(w)
	s := v.services(f)
	if len(s.Services) == 0 {
		return s, v.exist(f)
	}
	return s, nil
}

// exist returns an error if the group or the node of f is known not to exist. Otherwise a typing
// error would look like a group or a node without Services.
func (v *view) exist(f Filter) error {
	if f.Pool != "" && v.unknown(KindGroups) == "" && !slices.ContainsFunc(v.Groups, func(g v2.ServiceGroup) bool { return g.Name == f.Pool }) {
		return fmt.Errorf("there is no ServiceGroup %q; there are %s", f.Pool, v.groupNames())
	}
	if f.Node != "" && v.leased(f.Node) == nil && v.nodeObject(f.Node) == nil && v.unknown(KindNodes, KindLeases) == "" {
		return fmt.Errorf("there is neither a node %q nor a Lease of one", f.Node)
	}
	return nil
}

func (v *view) services(f Filter) Services {
	all := Services{Unread: v.unread(KindServices, KindGroups, KindLeases, KindNamespaces)}
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

// line returns the line of the Service of r.
func (v *view) line(r service.Request) ServiceLine {
	svc := v.objects[r.Key()]
	l := ServiceLine{Namespace: r.Namespace, Service: r.Name, Pool: r.From, Type: r.PoolType, Sharing: r.SharingKey,
		addresses: r.Shown, Status: statusOK}
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
	l.Status, l.Code, l.Message = v.serviceState(r)
	if l.state = l.Status; l.Code != "" {
		l.state += " (" + l.Code + ")"
	}
	return l
}

// serviceState returns the state of the Service of r: its first problem, or OK.
func (v *view) serviceState(r service.Request) (status, code, message string) {
	choice := v.plan.Choices[ipam.Owner(r.Key())]
	code, message = v.refusal(r, choice)
	unsure := v.unsure(r)
	switch {
	case r.Leaving:
		return statusOK, "", "it is being deleted"
	case r.Contesting || r.Owner == service.Contested:
		return statusContested, ipam.ReasonContested, v.contest(r)
	case len(r.Shown) == 0 && unsure != "":
		return statusUnknown, "", unsure
	case len(r.Shown) == 0 && choice.Refusal != nil:
		return statusWaiting, code, message
	case len(r.Shown) == 0:
		if c := v.allocated(r); c != nil && c.Status == metav1.ConditionFalse && v.unknown(KindLeases, KindNodes, KindNetworks) != "" {
			return statusWaiting, c.Reason, c.Message // only the allocator knows the details
		}
		return statusPending, "", v.whyPending(r, choice)
	case choice.Result.Reason == ipam.ReasonConflict:
		return statusConflict, code, message
	}
	for _, o := range v.outlooks[r.Key()] {
		if why := v.unannounced(o); why != "" {
			return statusNotAnnounced, "", o.IP.String() + ": " + why
		}
	}
	switch why := v.unannounceable(r); {
	case choice.Refusal != nil && unsure == "":
		return statusPartial, code, message
	case why != "":
		return statusUnknown, "", "whether its addresses are announced is " + why
	}
	return statusOK, "", ""
}

// unannounceable says why it is unknown whether the addresses of the Service of r are
// announced, or returns "".
func (v *view) unannounceable(r service.Request) string {
	if why := v.unknown(KindLeases); why != "" {
		return why
	}
	if slices.ContainsFunc(v.outlooks[r.Key()], func(o announce.Outlook) bool { return o.Idle && o.Undecided }) {
		return cmp.Or(v.unknown(KindEndpoints), "unknown") + "; its group withdraws the addresses of Services without endpoints (withdrawWithoutEndpoints)"
	}
	return ""
}

// unsure says why it is unknown which addresses the Service of r gets, or returns "".
func (v *view) unsure(r service.Request) string {
	if !v.Settled && r.Classless && len(r.Vouched) == 0 {
		if why := v.unknown(KindPods); why != "" && !v.absent(KindPods) {
			return "whether PureLB serves it, which has no loadBalancerClass, is " + why
		}
	}
	if r.Malformed != "" {
		return "" // no group gives it an address
	}
	if why := v.unknown(KindGroups, KindNamespaces); why != "" {
		return "what it gets is " + why + v.conditionSays(r)
	}
	return ""
}

// conditionSays returns the end of a sentence: the allocator's last condition of the Service of r.
func (v *view) conditionSays(r service.Request) string {
	if c := v.allocated(r); c != nil {
		return fmt.Sprintf("; its condition says %s: %s", c.Reason, c.Message)
	}
	return ""
}

// allocated returns the condition that the allocator writes on the Service of r, or nil.
func (v *view) allocated(r service.Request) *metav1.Condition {
	return meta.FindStatusCondition(v.objects[r.Key()].Status.Conditions, service.ConditionAllocated)
}

// refusal says why the Service of r does not get all addresses that it wants. Only the allocator
// knows the answer of a backend, and writes it into the condition of the Service.
func (v *view) refusal(r service.Request, choice ipam.Choice) (code, message string) {
	if choice.Refusal == nil || len(choice.Claims) == 0 {
		return choice.Result.Reason, choice.Result.Message
	}
	c := v.allocated(r)
	if c != nil && c.Status == metav1.ConditionFalse && c.Reason != ipam.ReasonBackend && c.Reason != ipam.ReasonContested {
		return c.Reason, c.Message
	}
	for _, g := range v.state.Config.Groups.Usable {
		if g.Backend == "" || g.DisplayName() != choice.Refusal.Pool {
			continue
		}
		if fault := v.backendFault(g); fault != "" {
			return ipam.ReasonBackendUnavailable, fault
		}
	}
	if c != nil && c.Reason == ipam.ReasonBackend {
		return c.Reason, c.Message
	}
	return choice.Result.Reason, choice.Result.Message
}

// backendFault says why the backend of g does not work, or returns "".
func (v *view) backendFault(g groups.Group) string {
	o := v.groupObject(g)
	if o == nil {
		return ""
	}
	c := meta.FindStatusCondition(o.Status.Conditions, v2.ConditionBackendReady)
	if c == nil || c.Status != metav1.ConditionFalse {
		return ""
	}
	return fmt.Sprintf("%s of ServiceGroup %s does not work (%s): %s", g.Backend, g.DisplayName(), c.Reason, c.Message)
}

// contest says which other manager writes the status of the Service of r.
func (v *view) contest(r service.Request) string {
	if c := v.allocated(r); r.Contesting && c != nil {
		return c.Message
	}
	return "another controller wrote " + joined(r.Strange) + " into its status, which PureLB did not give; set spec.loadBalancerClass so that one controller serves it"
}

// whyPending says why a Service that should have been served still waits.
func (v *view) whyPending(r service.Request, choice ipam.Choice) string {
	text := "it is to get " + joined(choice.Result.Addresses) + " from " + choice.Result.From
	if v.unknown(KindServices, KindLeases, KindNodes) != "" {
		text = "it is to get an address from " + choice.Result.From // the free addresses are unknown
	}
	if why := v.whyUnwritten(r); why != "" {
		return text + why
	}
	if c := v.allocated(r); c != nil && c.Reason != ipam.ReasonAllocated {
		return text + ", and its condition still says " + c.Reason
	}
	if v.knows(KindPods) && components(v.Pods).Allocator.Running == 0 {
		return text + ", but no allocator is ready"
	}
	return text + ", and the allocator has not given it yet"
}

// whyUnwritten returns the end of a sentence: the allocator's reason why it has not served a
// Service that it should have served. It returns "" if the allocator gives none.
func (v *view) whyUnwritten(r service.Request) string {
	if v.Allocator != nil && !v.Allocator.Complete {
		return ", but the allocator " + v.Allocator.Identity + ", which leads, has not read all Services yet"
	}
	if d := v.delayed(r); d != nil {
		return ", but its status is not written for now" + v.until(d.Until) + ": " + d.Why
	}
	return ""
}

// unannounced says why no node has the address of o, or returns "".
func (v *view) unannounced(o announce.Outlook) string {
	switch {
	case !v.knows(KindLeases), o.Idle && !o.Undecided:
		return ""
	case o.Where == announce.Nowhere:
		return "no node announces it: its group is local, and no node has an interface in its network"
	case o.Where == announce.Remote:
		if len(v.liveNodes()) == 0 {
			return "no node announces it: no agent is alive"
		}
		return ""
	}
	at, announced := service.SlotOf(slots(v.objects[o.Service]), o.IP)
	switch {
	case announced && v.lives(at.Node) && v.failureAt(at.Node, o.IP) != "":
		return fmt.Sprintf("node %s is to announce it, and its agent says: %s", at.Node, v.failureAt(at.Node, o.IP))
	case announced && v.lives(at.Node), o.Idle && o.Undecided:
		return ""
	case announced && o.Choice.Node != "":
		return fmt.Sprintf("node %s, which announced it, no longer renews its Lease; %s is to take it%s", at.Node, o.Choice.Node, v.itsAgentSays(o))
	case announced:
		return fmt.Sprintf("node %s, which announced it, no longer renews its Lease, and no other node has an interface in its network", at.Node)
	case o.Undecided:
		return "no node announces it yet; which node is to depends on the endpoints of the Service"
	case o.Choice.Node == "":
		return "no node announces it: no live node has an interface in its network"
	}
	return "no node announces it yet; " + o.Choice.Node + " is to" + v.itsAgentSays(o)
}

// liveNodes returns the nodes with a valid Lease.
func (v *view) liveNodes() []string {
	var live []string
	for _, n := range v.nodes {
		if n.Alive {
			live = append(live, n.Node)
		}
	}
	return live
}

// Names returns the names of the Services, with their namespaces.
func (s Services) Names() []string {
	var names []string
	for _, l := range s.Services {
		names = append(names, "service/"+l.Namespace+"/"+l.Service)
	}
	return names
}

// Tables returns the tables of s.
func (s Services) Tables() []Table {
	var notes []string
	for _, l := range s.Services {
		if l.Status != statusOK {
			notes = append(notes, l.Namespace+"/"+l.Service+": "+l.Message)
		}
	}
	return slices.Concat([]Table{TableOf("", s.Services)}, linesTable("", notes), unreadTable(s.Unread))
}
