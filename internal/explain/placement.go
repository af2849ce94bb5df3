package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/service"
)

// Placement is the move of the local addresses of one Service to another node.
type Placement struct {
	Namespace string   `json:"namespace" col:"NAMESPACE"`
	Service   string   `json:"service" col:"SERVICE"`
	IPs       []string `json:"ips" col:"IPS"`
	From      string   `json:"from" col:"FROM"`
	To        string   `json:"to" col:"TO"`
	State     string   `json:"state" col:"STATE"`
	Why       string   `json:"why,omitempty"`
}

// Key returns "namespace/name".
func (p Placement) Key() string { return p.Namespace + "/" + p.Service }

// Placements are moves of Services, and the number of Services on each node before and after.
type Placements struct {
	Services []Placement `json:"services"`
	Nodes    []Load      `json:"nodes"`
	Unread   []Unread    `json:"unknown,omitempty"`
}

// Load is the number of Services whose first local address a node has, before the moves and after.
type Load struct {
	Node   string `json:"node" col:"NODE"`
	Before int    `json:"before" col:"BEFORE"`
	After  int    `json:"after" col:"AFTER"`
}

// PlacementOf returns the move of one Service, "namespace/name", to a node. It fails if that node cannot have
// the local addresses of the Service.
func PlacementOf(w World, key, to string) (Placements, error) {
	v, err := placing(w)
	if err != nil {
		return Placements{}, err
	}
	svc, local := v.objects[key], v.locals(key)
	switch {
	case svc == nil:
		return Placements{}, fmt.Errorf("there is no Service %s of type LoadBalancer", key)
	case len(local) == 0:
		return Placements{}, fmt.Errorf("%s has no local address; remote addresses are on all nodes", key)
	case local[0].Holder == "":
		return Placements{}, fmt.Errorf("no live node has %s of %s yet", local[0].IP, key)
	case svc.Annotations[service.AnnotationNode] != "":
		return Placements{}, fmt.Errorf("%s names its node itself: change or remove its annotation %s", key, service.AnnotationNode)
	}
	if err := v.fits(local, to); err != nil {
		return Placements{}, err
	}
	return v.placements(map[string]string{key: to}), nil
}

// fits returns why a node cannot have one of local, or nil.
func (v *view) fits(local []announce.Outlook, to string) error {
	for _, o := range local {
		fits := announce.Candidates(v.peers.Members, o.IP, o.Preference)
		i := slices.IndexFunc(fits, func(c announce.Candidacy) bool { return c.Node == to })
		switch {
		case i < 0:
			return fmt.Errorf("no agent runs on a node %q", to)
		case !fits[i].Fit:
			return fmt.Errorf("%s cannot have %s: %s", to, o.IP, fits[i].Why)
		}
	}
	return nil
}

// RebalancingOf returns the moves after which each Service is on the node that would have its first local
// address if no node had it: by the weights of its group, and a hash.
func RebalancingOf(w World) (Placements, error) {
	v, err := placing(w)
	if err != nil {
		return Placements{}, err
	}
	nodes, targets := election.NewView(v.peers.Members), map[string]string{}
	for key := range v.outlooks {
		local := v.locals(key)
		if len(local) == 0 || local[0].Holder == "" || v.objects[key].Annotations[service.AnnotationNode] != "" {
			continue
		}
		if best := nodes.Choose(local[0].IP, "", local[0].Preference).Node; best != "" && best != local[0].Holder && v.fits(local, best) == nil {
			targets[key] = best
		}
	}
	return v.placements(targets), nil
}

func placing(w World) (*view, error) {
	if err := w.needs("which node should have an address", KindServices, KindLeases, KindGroups); err != nil {
		return nil, err
	}
	return newView(w), nil
}

// locals returns the outlooks of the local addresses of a Service.
func (v *view) locals(key string) []announce.Outlook {
	return slices.DeleteFunc(slices.Clone(v.outlooks[key]), func(o announce.Outlook) bool { return o.Where != announce.Local || o.Undecided })
}

// placements returns the moves of Services to targets.
func (v *view) placements(targets map[string]string) Placements {
	all := Placements{Unread: v.unread(KindEndpoints)}
	loads := map[string]*Load{}
	for _, m := range v.peers.Members {
		loads[m.Node] = &Load{Node: m.Node}
	}
	for key := range v.outlooks {
		local := v.locals(key)
		if len(local) == 0 || local[0].Holder == "" {
			continue
		}
		to := cmp.Or(targets[key], local[0].Holder)
		loads[local[0].Holder].Before++
		loads[to].After++
		if targets[key] == "" {
			continue
		}
		namespace, name, _ := strings.Cut(key, "/")
		p := Placement{Namespace: namespace, Service: name, From: local[0].Holder, To: to, State: Ready}
		if !v.elsewhere(key, to) {
			p.State = Done
		}
		for _, o := range local {
			p.IPs = append(p.IPs, o.IP.String())
		}
		all.Services = append(all.Services, p)
	}
	slices.SortFunc(all.Services, func(a, b Placement) int { return cmp.Compare(a.Key(), b.Key()) })
	for _, node := range slices.Sorted(maps.Keys(loads)) {
		all.Nodes = append(all.Nodes, *loads[node])
	}
	return all
}

// elsewhere reports whether a local address of a Service is not on node.
func (v *view) elsewhere(key, node string) bool {
	return slices.ContainsFunc(v.locals(key), func(o announce.Outlook) bool { return o.Holder != node })
}

// Placed says what is missing in w until the local addresses of p are on its node, or returns "".
func Placed(w World, p Placement) string {
	v := newView(w)
	for _, o := range v.locals(p.Key()) {
		if o.Holder != p.To {
			return fmt.Sprintf("%s is on %s", o.IP, orDash(o.Holder))
		}
	}
	if len(v.locals(p.Key())) == 0 {
		return "it has no local address any more"
	}
	return ""
}

// Problem reports whether a Service was to move and has not.
func (ps Placements) Problem() bool {
	return slices.ContainsFunc(ps.Services, func(p Placement) bool { return p.State == Stopped })
}

// Tables shows ps.
func (ps Placements) Tables() []Table {
	moves := TableOf("", ps.Services)
	for _, p := range ps.Services {
		if p.Why != "" {
			moves.Lines = append(moves.Lines, p.Key()+": "+p.Why)
		}
	}
	nodes := TableOf("Services on each node", ps.Nodes)
	tables := []Table{nodes}
	if len(ps.Services) > 0 {
		tables = []Table{moves, nodes}
	}
	return append(tables, unreadTable(ps.Unread)...)
}
