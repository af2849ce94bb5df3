package explain

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/service"
)

// Wish says which Services are to move.
type Wish struct {
	// Leave is to move from PureLB to another controller. Otherwise it is the other way.
	Leave bool
	// From is a key of Programs: only Services with its mark move to PureLB. It may be "".
	From string
	// Only is the one Service, "namespace/name", or "" for all.
	Only string
}

// Programs are the names of other load balancers, by what users write. The products whose annotations PureLB can
// read have the same key.
var Programs = map[string]string{"metallb": "MetalLB", "kube-vip": "kube-vip", "cilium": "Cilium LB-IPAM", "servicelb": "K3s ServiceLB"}

// The states of a Transfer.
const (
	Ready   = "Ready"   // Nothing is in the way.
	Done    = "Done"    // It has moved, or has always been there.
	Blocked = "Blocked" // Something is in the way, which somebody must change first.
	Skipped = "Skipped" // It is not to move.
	Stopped = "Stopped" // It was to move, and has not within the time.
)

// Transfer is the move of one Service.
type Transfer struct {
	Namespace string   `json:"namespace" col:"NAMESPACE"`
	Service   string   `json:"service" col:"SERVICE"`
	IPs       []string `json:"ips"`
	// NewIPs replace IPs, which are addresses of nodes.
	NewIPs []string `json:"newIPs,omitempty"`
	ips    string   `col:"IPS"`
	// Groups are the ServiceGroups of the addresses.
	Groups string `json:"groups" col:"GROUP"`
	// By is the program that gave the addresses, and On are the nodes that have them, as far as the
	// Service tells.
	By string   `json:"by" col:"BY"`
	On []string `json:"on" col:"ON"`
	// Finalizers are those of other programs.
	Finalizers []string `json:"finalizers,omitempty"`
	State      string   `json:"state" col:"STATE"`
	Why        string   `json:"why,omitempty"`

	// program is the key of By in Programs, or "".
	program     string
	annotations map[string]string
	without     string
	// apart says that the Service has nothing to do with the load balancer that the wish names.
	apart bool
	// released says to remove the finalizers, and renumbered that the status loses its addresses.
	released, renumbered bool
}

// Key returns "namespace/name".
func (t Transfer) Key() string { return t.Namespace + "/" + t.Service }

// Annotate makes the changes of the metadata of svc.
func (t Transfer) Annotate(svc *corev1.Service) {
	if svc.Annotations == nil {
		svc.Annotations = map[string]string{}
	}
	delete(svc.Annotations, t.without)
	maps.Copy(svc.Annotations, t.annotations)
	if t.released {
		svc.Finalizers = slices.DeleteFunc(svc.Finalizers, func(f string) bool { return slices.Contains(t.Finalizers, f) })
	}
}

// Clear empties the status of svc if its addresses do not move with it, and reports whether it does. A status that
// has other addresses by now stays: PureLB may have given them.
func (t Transfer) Clear(svc *corev1.Service) bool {
	clears := t.renumbered && joined(service.Ingress(svc)) == strings.Join(t.IPs, ", ")
	if clears {
		svc.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
	return clears
}

// Transfers are moves of Services.
type Transfers struct {
	Services []Transfer `json:"services"`
	Unread   []Unread   `json:"unknown,omitempty"`
}

// Together returns the ready Services, those that share an address in one list. An address moves with all its
// Services: with some of them it would be in conflict.
func (ts Transfers) Together() (all [][]*Transfer) {
	taken := map[*Transfer]bool{}
	for i := range ts.Services {
		first := &ts.Services[i]
		if first.State != Ready || taken[first] {
			continue
		}
		var together []*Transfer
		for j := range ts.Services {
			other := &ts.Services[j]
			shares := slices.ContainsFunc(other.IPs, func(ip string) bool { return slices.Contains(first.IPs, ip) })
			if other.State == Ready && !taken[other] && (other == first || shares && !other.renumbered) {
				together = append(together, other)
				taken[other] = true
			}
		}
		all = append(all, together)
	}
	return all
}

// TransfersOf says what moves, and what is in the way. It finds that out as the allocator would: it sets the
// annotations in a copy of w, and decides.
func TransfersOf(w World, wish Wish) (Transfers, error) {
	if err := w.needs("what would move", KindServices, KindGroups); err != nil {
		return Transfers{}, err
	}
	v, then := newView(w), w
	all := Transfers{Unread: v.unread(KindLeases, KindNodes, KindNamespaces, KindPods)}
	then.Services = nil
	for i := range w.Services {
		svc := w.Services[i].DeepCopy()
		key := svc.Namespace + "/" + svc.Name
		if wish.Only != "" && wish.Only != key {
			// It does not move.
		} else if t := v.transfer(svc, v.requests[key], wish); !t.apart || wish.Only != "" {
			all.Services = append(all.Services, t)
			if t.State == Ready {
				t.Annotate(svc)
				t.Clear(svc)
			}
		}
		then.Services = append(then.Services, *svc)
	}
	if wish.Only != "" && len(all.Services) == 0 {
		return all, fmt.Errorf("there is no Service %s of type LoadBalancer", wish.Only)
	}
	after := newView(then)
	for i := range all.Services {
		if t := &all.Services[i]; t.State == Ready && !wish.Leave {
			after.judge(t, after.requests[t.Key()])
		}
	}
	stays := v.staying(all, wish.Leave)
	for i := range all.Services {
		t := &all.Services[i]
		t.ips = strings.Join(t.IPs, ",")
		if len(t.NewIPs) > 0 {
			t.ips += " -> " + strings.Join(t.NewIPs, ",")
		}
		for _, ip := range t.IPs {
			if other := stays[ip]; other != "" && t.State == Ready && !t.renumbered {
				t.State, t.Why = Blocked, other+" has its address too and does not move: an address moves with all its Services"
			}
		}
	}
	slices.SortFunc(all.Services, func(a, b Transfer) int { return cmp.Compare(a.Key(), b.Key()) })
	return all, nil
}

// staying returns the addresses that a Service has which stays where those of all are before they move, with that
// Service.
func (v *view) staying(all Transfers, leave bool) map[string]string {
	moves, stays := map[string]bool{}, map[string]string{}
	for _, t := range all.Services {
		moves[t.Key()] = t.State == Ready
	}
	for _, r := range v.plan.Requests {
		if key := r.Key(); !moves[key] && (r.Owner == service.Anothers) != leave {
			for _, a := range service.Ingress(v.objects[key]) {
				stays[a.String()] = key
			}
		}
	}
	return stays
}

// transfer returns the move of svc, whose request is r, before the decision of the allocator.
func (v *view) transfer(svc *corev1.Service, r service.Request, wish Wish) Transfer {
	t := Transfer{Namespace: svc.Namespace, Service: svc.Name, By: "PureLB", Groups: r.From, IPs: texts(service.Ingress(svc))}
	ofNodes := v.ofNodes(svc)
	for _, s := range slots(svc) {
		t.On = append(t.On, s.Node+" ("+s.Interface+")")
	}
	for _, f := range svc.Finalizers {
		if service.KeeperOf(f) != "" {
			t.Finalizers = append(t.Finalizers, f)
		}
	}
	if r.Owner == service.Anothers {
		t.program, _ = v.otherLoadBalancerOf(svc)
		if t.program == "" && ofNodes && service.AsksAdoption(svc) {
			t.program = "servicelb" // adopt has taken the finalizer of the cloud controller
		}
		t.By = Programs[t.program]
		if host := svc.Annotations["kube-vip.io/vipHost"]; host != "" && len(t.On) == 0 {
			t.On = []string{host}
		}
	}
	if wish.Leave {
		v.leave(&t, svc, r)
	} else {
		v.adopt(&t, svc, r, wish, ofNodes)
		t.renumbered = t.State == Ready && wish.From == "servicelb" && ofNodes && r.Owner == service.Anothers
	}
	return t
}

// isNodes reports whether Kubernetes knows a as the address of a node. Agents also take the addresses of
// kube-vip for those of nodes.
func (v *view) isNodes(a netip.Addr) bool {
	return slices.ContainsFunc(v.Nodes, func(n corev1.Node) bool {
		return slices.ContainsFunc(n.Status.Addresses, func(na corev1.NodeAddress) bool { return na.Address == a.String() })
	})
}

// adopt says whether svc can move to PureLB, as far as the Service itself tells.
func (v *view) adopt(t *Transfer, svc *corev1.Service, r service.Request, wish Wish, ofNodes bool) {
	t.annotations, t.without = map[string]string{service.AnnotationAdopt: "true"}, service.AnnotationLeave
	maps.Copy(t.annotations, service.Translate(svc, t.program))
	t.released = wish.From == "servicelb"
	asks := svc.DeepCopy()
	t.Annotate(asks)
	switch {
	case r.Leaving:
		t.State, t.Why = Skipped, "it is being deleted"
	case r.Owner == service.Contested:
		t.State, t.Why = Blocked, v.contest(r)
	case r.Owner != service.Anothers && svc.Annotations[service.AnnotationAdopt] != "true":
		t.State = Done // PureLB's own
	case r.Owner != service.Anothers:
		if t.State, t.Why = Done, v.unfinished(r, false); t.Why != "" {
			t.State = Ready
		}
	case v.Rules.Read(asks).Unfit:
		t.State, t.Why = Skipped, v.Rules.Read(asks).Reason
	case len(t.IPs) == 0:
		t.State, t.Why = Skipped, "it shows no address that it could keep: "+r.Reason
	case wish.From != "" && t.program != wish.From:
		t.State, t.Why, t.apart = Skipped, "it has no mark of "+Programs[wish.From], true
	case ofNodes && wish.From != "servicelb":
		t.State, t.Why = Blocked, "its addresses are those of nodes, which no ServiceGroup can have: --from servicelb gives it another one"
	default:
		t.State = Ready
	}
}

// leave says whether svc can move to another controller.
func (v *view) leave(t *Transfer, svc *corev1.Service, r service.Request) {
	t.annotations, t.without = map[string]string{service.AnnotationLeave: "true"}, service.AnnotationAdopt
	switch {
	case r.Leaving:
		t.State, t.Why = Skipped, "it is being deleted"
	case r.Owner == service.Anothers && svc.Annotations[service.AnnotationLeave] != "true":
		t.State, t.Why, t.apart = Skipped, r.Reason, true
	case r.Owner == service.Anothers:
		if t.State, t.Why = Done, v.unfinished(r, true); t.Why != "" {
			t.State = Ready
		}
	case !r.Classless:
		t.State, t.Why = Blocked, "no other controller serves the loadBalancerClass "+*svc.Spec.LoadBalancerClass+", which nobody can change"
	case r.Bound:
		t.State, t.Why = Ready, "NetBox or the IPAM server gets its addresses back: reserve them there"
	default:
		t.State = Ready
	}
}

// judge completes t by what the allocator decides when the Service has its annotations. r is its request then.
func (v *view) judge(t *Transfer, r service.Request) {
	choice := v.plan.Choices[ipam.Owner(r.Key())].Result
	switch {
	case r.Owner == service.Anothers:
		t.State, t.Why = Blocked, r.Reason
		return
	case r.Owner == service.Contested:
		t.State, t.Why = Blocked, v.contest(r)
		return
	case r.Malformed != "":
		t.State, t.Why = Blocked, r.Malformed
		return
	case t.renumbered && len(choice.Addresses) == 0:
		t.State, t.Why = Blocked, choice.Message
		return
	case t.renumbered:
		t.NewIPs = texts(choice.Addresses)
	}
	var groups []string
	for _, a := range choice.Addresses {
		if g := v.group(a, choice.From); !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	t.Groups = strings.Join(groups, ", ")
}

// Unfinished says what is missing in w until the move of a Service, "namespace/name", is done, or returns "".
func Unfinished(w World, key string, leave bool) string {
	v := newView(w)
	r, found := v.requests[key]
	if !found {
		return "there is no Service of this name any more"
	}
	return v.unfinished(r, leave)
}

func (v *view) unfinished(r service.Request, leave bool) string {
	if leave {
		if r.Owner == service.Anothers && !r.Recorded && len(slots(v.objects[r.Key()])) == 0 {
			return ""
		}
		return "PureLB has not let it go yet"
	}
	status, _, message := v.serviceState(r)
	switch {
	case r.Owner == service.Anothers:
		return r.Reason
	case !r.Recorded:
		return "the allocator has not taken it over yet"
	case len(r.Shown) > 0 && (status == statusOK || status == statusPartial):
		return ""
	}
	return message
}

// Problem reports whether a Service that was to move has not, or cannot. named says that the user named it.
func (ts Transfers) Problem(named bool) bool {
	return slices.ContainsFunc(ts.Services, func(t Transfer) bool {
		return t.State == Blocked || t.State == Stopped || named && t.State == Skipped
	})
}

// Tables shows ts.
func (ts Transfers) Tables() []Table {
	var notes []string
	for _, s := range ts.Services {
		if s.Why != "" {
			notes = append(notes, s.Key()+": "+s.Why)
		}
		for _, f := range s.Finalizers {
			does := "stays; remove it when that program is gone, or the Service cannot be deleted"
			if s.released && s.State != Blocked && s.State != Skipped {
				does = "is removed"
			}
			notes = append(notes, s.Key()+": the finalizer "+f+service.KeeperOf(f)+" "+does)
		}
	}
	return slices.Concat([]Table{TableOf("", ts.Services)}, linesTable("", notes), unreadTable(ts.Unread))
}
