package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"purelb.io/purelb/internal/allocate/census"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/service"
)

// Election says which nodes can announce which addresses, and which nodes do.
type Election struct {
	Nodes           []ElectionNode   `json:"nodes"`
	SubnetCoverage  []SubnetCoverage `json:"subnetCoverage"`
	UncoveredRanges []UncoveredRange `json:"uncoveredRanges"`
	DrainSimulation []Move           `json:"drainSimulation,omitempty"`
	DrainNode       string           `json:"drainNode,omitempty"`
	Problems        []string         `json:"problems"`
	Unread          []Unread         `json:"unknown,omitempty"`
}

// ElectionNode is one node.
type ElectionNode struct {
	Node    string     `json:"node" col:"NODE"`
	Config  string     `json:"config" col:"CONFIG"`
	Subnets []string   `json:"subnets" col:"SUBNETS"`
	Renewed *time.Time `json:"renewed,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
	// age and rest say for people how old the Lease is, and how long it lasts.
	age     string `col:"RENEWED"`
	rest    string `col:"EXPIRES"`
	Healthy bool   `json:"healthy" col:"HEALTHY"`
	// Announcing is nil if the Services could not be read.
	Announcing *int   `json:"announcing" col:"ANNOUNCING"`
	Draining   string `json:"draining,omitempty"`
	Problem    string `json:"problem,omitempty"`
}

// SubnetCoverage is the live nodes of a network.
type SubnetCoverage struct {
	Subnet string   `json:"subnet"`
	Nodes  []string `json:"nodes"`
}

// UncoveredRange is a range of a local group that no node announces.
type UncoveredRange struct {
	ServiceGroup string `json:"serviceGroup"`
	Pool         string `json:"pool"`
	Subnet       string `json:"subnet"`
}

// Move is what happens to an address when a node is drained.
type Move struct {
	Service   string `json:"service" col:"SERVICE"`
	IP        string `json:"ip" col:"IP"`
	Current   string `json:"current" col:"CURRENT"`
	NewWinner string `json:"newWinner" col:"NEW WINNER"`
	Subnet    string `json:"subnet" col:"SUBNET"`
	Why       string `json:"why" col:"WHY"`
}

// ElectionOf returns how the nodes share the local addresses. If drain names a node, it also
// returns the moves if that node were drained.
func ElectionOf(w World, only, drain string) (Election, error) {
	if err := w.needs("which nodes can announce what", KindLeases); err != nil {
		return Election{}, err
	}
	if err := w.needs("what would move", KindServices); drain != "" && err != nil {
		return Election{}, err
	}
	v := newView(w)
	for _, name := range []string{only, drain} {
		if name != "" && v.leased(name) == nil {
			return Election{}, fmt.Errorf("there is no Lease of a node %q", name)
		}
	}
	e := v.election(only)
	if drain != "" {
		e.DrainNode, e.DrainSimulation = drain, v.drain(drain)
	}
	return e, nil
}

func (v *view) election(only string) Election {
	e := Election{Unread: v.unread(KindLeases, KindServices, KindGroups)}
	announcing := v.announcing()
	for _, n := range v.nodes {
		e.Nodes = append(e.Nodes, v.electionNode(n, announcing[n.Node]))
	}
	for _, n := range v.Nodes {
		if v.leased(n.Name) == nil && v.knows(KindLeases) {
			e.Nodes = append(e.Nodes, ElectionNode{Node: n.Name, Problem: v.trouble(n.Name)})
		}
	}
	e.Nodes = slices.DeleteFunc(e.Nodes, func(n ElectionNode) bool { return only != "" && n.Node != only })
	slices.SortStableFunc(e.Nodes, func(a, b ElectionNode) int { return strings.Compare(a.Node, b.Node) })
	for _, n := range e.Nodes {
		mayLackAgent := v.leased(n.Node) == nil && len(v.hardTaints(n.Node)) > 0
		if why := v.trouble(n.Node); why != "" && !mayLackAgent {
			e.Problems = append(e.Problems, why)
		}
	}
	for _, s := range v.state.Subnets {
		c := SubnetCoverage{Subnet: s.String()}
		for _, n := range v.nodes {
			if n.Alive && slices.Contains(n.Subnets, s) {
				c.Nodes = append(c.Nodes, n.Node)
			}
		}
		e.SubnetCoverage = append(e.SubnetCoverage, c)
	}
	if len(v.state.Subnets) > 0 {
		for _, g := range v.state.Config.Groups.Usable {
			for _, p := range census.Unreached(g, v.state.Subnets) {
				e.UncoveredRanges = append(e.UncoveredRanges, UncoveredRange{g.DisplayName(), p.Text, p.Subnet.String()})
				e.Problems = append(e.Problems, fmt.Sprintf("range %s of ServiceGroup %s: no node has an interface in %s", p.Text, g.DisplayName(), p.Subnet))
			}
		}
	}
	return e
}

func (v *view) electionNode(n node, announcing int) ElectionNode {
	out := ElectionNode{Node: n.Node, Config: n.agent, Subnets: texts(n.Subnets), Healthy: n.Alive, Draining: n.draining, Problem: n.problem}
	if v.knows(KindServices) {
		out.Announcing = &announcing
	}
	if !n.renewed.IsZero() && !v.Now.IsZero() {
		out.Renewed, out.Expires = &n.renewed, &n.expires
		out.age, out.rest = short(v.Now.Sub(n.renewed))+" ago", short(n.expires.Sub(v.Now))+" ago"
		if n.Alive {
			out.rest = "in " + short(n.expires.Sub(v.Now))
		}
	}
	return out
}

// announcing counts the local addresses that each node announces.
func (v *view) announcing() map[string]int {
	counts := map[string]int{}
	for i := range v.Services {
		for _, s := range slots(&v.Services[i]) {
			if slices.Contains(service.Ingress(&v.Services[i]), s.Address) {
				counts[s.Node]++
			}
		}
	}
	return counts
}

// short prints the length of d, past or future.
func short(d time.Duration) string { return d.Abs().Round(time.Second).String() }

// drain returns the node that each local address of a node would move to.
func (v *view) drain(name string) []Move {
	members := slices.Clone(v.peers.Members)
	for i := range members {
		members[i].Draining = members[i].Draining || members[i].Node == name
	}
	after := v.foresee(members)
	var moves []Move
	for _, r := range v.plan.Requests {
		for i, o := range v.outlooks[r.Key()] {
			if o.Where != announce.Local || o.Holder != name && o.Choice.Node != name {
				continue
			}
			then := after[r.Key()][i]
			m := Move{Service: r.Key(), IP: o.IP.String(), Current: o.Holder, NewWinner: then.Choice.Node, Subnet: v.subnetOf(then)}
			switch {
			case then.Undecided:
				m.NewWinner, m.Why = "", "which node has it depends on the endpoints of the Service"
			case then.Choice.Node == name:
				m.Why = "it stays: no other live node has an interface in its network"
			default:
				m.Why = then.Why()
			}
			moves = append(moves, m)
		}
	}
	return moves
}

// subnetOf returns the network of a node that contains the address of o.
func (v *view) subnetOf(o announce.Outlook) string {
	for _, s := range v.state.Subnets {
		if s.Contains(o.IP) {
			return s.String()
		}
	}
	return ""
}

// Tables returns the tables of e.
func (e Election) Tables() []Table {
	tables := []Table{TableOf("", e.Nodes)}
	if e.DrainNode != "" {
		tables = append(tables, TableOf("If node "+e.DrainNode+" is drained", e.DrainSimulation))
	}
	return slices.Concat(tables, problemsTable(e.Problems), unreadTable(e.Unread))
}
