package explain

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/config"
)

// The words for how all is.
const (
	OverallOK      = "OK"
	OverallWarning = "WARNING"
)

// Status is how PureLB fares.
type Status struct {
	Components *Components     `json:"components,omitempty"`
	Pools      Pools           `json:"pools"`
	Election   Election        `json:"election"`
	BGP        []BGPNode       `json:"bgp"`
	Services   ServicesSummary `json:"services"`
	Overall    string          `json:"overall"`
	Warnings   []string        `json:"warnings"`
	Unread     []Unread        `json:"unknown,omitempty"`
}

// BGPNode is the speaker of a node.
type BGPNode struct {
	Node        string `json:"node"`
	Healthy     bool   `json:"healthy"`
	Established int    `json:"established"`
	Neighbors   int    `json:"neighbors"`
	Message     string `json:"message,omitempty"`
}

// ServicesSummary counts Services.
type ServicesSummary struct {
	Summary struct {
		Total    int `json:"total"`
		OK       int `json:"ok"`
		Problems int `json:"problems"`
		IPs      int `json:"ips"`
	} `json:"summary"`
}

// StatusOf says how PureLB fares in w.
func StatusOf(w World) Status {
	v := newView(w)
	s := Status{BGP: []BGPNode{}, Overall: OverallOK, Warnings: []string{}, Unread: w.Unread}
	s.Pools, _ = PoolsOf(w, "", false)
	s.Election = v.election("")
	s.Pools.Unread, s.Election.Unread = nil, nil
	v.addComponents(&s)
	for _, p := range v.state.Config.Problems {
		if p.Severity == config.Refused {
			s.warn("%s %s/%s is not in use (%s): %s", p.Kind, p.Namespace, p.Name, p.Reason, p.String())
		}
	}
	s.Warnings = append(s.Warnings, s.Election.Problems...)
	for _, n := range w.NodeStatuses {
		one := bgpNode(n.Status)
		s.BGP = append(s.BGP, one)
		if !one.Healthy {
			s.warn("BGP on node %s: %s", one.Node, one.Message)
		}
	}
	services := v.services(Filter{})
	s.Services.Summary.Total, s.Services.Summary.IPs, s.Services.Summary.Problems = services.TotalServices, services.TotalIPs, services.Problems
	s.Services.Summary.OK = services.TotalServices - services.Problems
	for _, l := range services.Services {
		if l.Status != statusOK {
			s.warn("Service %s/%s: %s: %s", l.Namespace, l.Service, l.Status, l.Message)
		}
	}
	if len(s.Warnings) > 0 {
		s.Overall = OverallWarning
	}
	return s
}

func (s *Status) warn(format string, args ...any) {
	s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
}

func (v *view) addComponents(s *Status) {
	if !v.knows(KindPods) {
		return
	}
	all := components(v.Pods)
	s.Components = &all
	if all.Allocator.Running == 0 {
		s.warn("no allocator is ready: Services get no addresses")
	}
	if all.LBNodeAgent.Running < all.LBNodeAgent.Pods || all.LBNodeAgent.Pods == 0 {
		s.warn("lbnodeagent: %s", all.LBNodeAgent)
	}
	if all.K8gobgp.Running < all.K8gobgp.Pods {
		s.warn("k8gobgp: %s", all.K8gobgp)
	}
}

func bgpNode(s bgpv1.BGPNodeStatusStatus) BGPNode {
	n := BGPNode{Node: s.NodeName, Healthy: s.Healthy, Neighbors: int(s.NeighborCount)}
	for _, one := range s.Neighbors {
		if one.State == "Established" {
			n.Established++
		}
	}
	if c := meta.FindStatusCondition(s.Conditions, bgpv1.ConditionReady); c != nil && !s.Healthy {
		n.Message = c.Message
	}
	return n
}

// Tables shows s.
func (s Status) Tables() []Table {
	var tables []Table
	if s.Components != nil {
		tables = append(tables, Table{Title: "Components", Lines: []string{
			"  allocator    " + s.Components.Allocator.String(), "  lbnodeagent  " + s.Components.LBNodeAgent.String(), "  k8gobgp      " + s.Components.K8gobgp.String()}})
	}
	pools := s.Pools.Tables()[0]
	pools.Title = "Pools"
	election := s.Election.Tables()[0]
	election.Title = "Election"
	tables = append(tables, pools, election)
	if len(s.BGP) > 0 {
		t := Table{Title: "BGP", Head: []string{"NODE", "ESTABLISHED", "HEALTHY"}}
		for _, n := range s.BGP {
			t.Rows = append(t.Rows, []string{n.Node, fmt.Sprintf("%d of %d", n.Established, n.Neighbors), yes(n.Healthy)})
		}
		tables = append(tables, t)
	}
	sum := s.Services.Summary
	tables = append(tables, Table{Title: "Services", Lines: []string{fmt.Sprintf("  %d Services with %d addresses: %d OK, %d with problems", sum.Total, sum.IPs, sum.OK, sum.Problems)}})
	overall := Table{Title: "Overall: " + s.Overall}
	for _, w := range s.Warnings {
		overall.Lines = append(overall.Lines, "  "+w)
	}
	return append(append(tables, overall), unreadTable(s.Unread)...)
}
