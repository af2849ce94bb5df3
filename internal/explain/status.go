package explain

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
)

// The values of Overall.
const (
	OverallOK      = "OK"
	OverallWarning = "WARNING"
	// OverallUnknown: the objects that could be read are fine, but some could not be read.
	OverallUnknown = "UNKNOWN"
)

// Status is the state of PureLB.
type Status struct {
	Components *Components     `json:"components,omitempty"`
	Pools      Pools           `json:"pools"`
	Election   Election        `json:"election"`
	BGP        []BGPNode       `json:"bgp"`
	Services   ServicesSummary `json:"services"`
	Overall    string          `json:"overall"`
	Warnings   []string        `json:"warnings"`
	// Leader is the allocator that leads, if it was asked.
	Leader string   `json:"leader,omitempty"`
	Unread []Unread `json:"unknown,omitempty"`
}

// BGPNode is the speaker of a node.
type BGPNode struct {
	Node        string `json:"node" col:"NODE"`
	established string `col:"ESTABLISHED"`
	Healthy     bool   `json:"healthy" col:"HEALTHY"`
	Established int    `json:"established"`
	Neighbors   int    `json:"neighbors"`
	Message     string `json:"message,omitempty"`
}

// ServicesSummary counts Services.
type ServicesSummary struct {
	// Summary is nil if the Services could not be read.
	Summary *ServiceCounts `json:"summary"`
}

// ServiceCounts are numbers of Services and of their addresses.
type ServiceCounts struct {
	Total    int `json:"total"`
	OK       int `json:"ok"`
	Problems int `json:"problems"`
	IPs      int `json:"ips"`
}

// StatusOf returns the state of PureLB in w.
func StatusOf(w World) Status {
	v := newView(w)
	s := Status{Unread: v.Unread}
	s.Pools, _ = v.pools(Filter{})
	s.Election = v.election("")
	s.Pools.Unread, s.Election.Unread = nil, nil
	if v.knows(KindPods) {
		s.Components = new(components(v.Pods))
	}
	for _, p := range probes {
		if slices.Contains([]string{"programs", "configuration", "networks", "nodes", "routers", "services"}, p.name) {
			s.Warnings = append(s.Warnings, p.check(v, Facts{all: w}).faults...)
		}
	}
	for _, n := range v.NodeStatuses {
		s.BGP = append(s.BGP, v.bgpNode(n.Status))
	}
	if all := v.services(Filter{}); v.knows(KindServices) || v.absent(KindServices) {
		s.Services.Summary = &ServiceCounts{Total: all.TotalServices, IPs: all.TotalIPs, Problems: all.Problems, OK: all.TotalServices - all.Problems}
	}
	v.addAllocatorTo(&s)
	s.Overall = v.overall(s)
	if sum := s.Services.Summary; sum != nil && sum.Problems > 0 {
		s.Unread = v.unheardAllocator(s.Unread)
	}
	return s
}

// overall summarizes s in one word.
func (v *view) overall(s Status) string {
	switch {
	case len(s.Warnings) > 0:
		return OverallWarning
	case slices.ContainsFunc(v.Unread, Unread.hidden):
		return OverallUnknown
	}
	return OverallOK
}

func (s *Status) warn(format string, args ...any) {
	s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
}

func (v *view) bgpNode(s bgpv1.BGPNodeStatusStatus) BGPNode {
	n := BGPNode{Node: s.NodeName, Healthy: s.Healthy, Neighbors: int(s.NeighborCount)}
	for _, one := range s.Neighbors {
		if one.State == established {
			n.Established++
		}
	}
	n.established = fmt.Sprintf("%d of %d", n.Established, n.Neighbors)
	if c := meta.FindStatusCondition(s.Conditions, bgpv1.ConditionReady); c != nil && !s.Healthy {
		n.Message = c.Message
	}
	if silent := v.silence(s); silent != "" {
		n.Healthy, n.Message = false, silent
	}
	return n
}

// silence says that the speaker of a node is gone, because it has not written for too long. Its
// last report is then outdated. Otherwise silence returns "".
func (v *view) silence(s bgpv1.BGPNodeStatusStatus) string {
	const missed = 3 // See HeartbeatSeconds.
	if s.LastUpdated == nil || s.HeartbeatSeconds <= 0 || v.Now.IsZero() {
		return ""
	}
	age := v.Now.Sub(s.LastUpdated.Time)
	if age <= missed*time.Duration(s.HeartbeatSeconds)*time.Second {
		return ""
	}
	return fmt.Sprintf("its speaker has not reported for %s, although it should every %ds: it does not run or does not reach the API server", short(age), s.HeartbeatSeconds)
}

// mostWarnings is how many warnings the tables of a Status show.
const mostWarnings = 20

// Tables returns the tables of s, with the first warnings.
func (s Status) Tables() []Table { return s.tables(mostWarnings) }

// Wide returns the tables of s with all warnings.
func (s Status) Wide() []Table { return s.tables(len(s.Warnings)) }

func (s Status) tables(most int) []Table {
	var tables []Table
	if s.Components != nil {
		leads := ""
		if s.Leader != "" {
			leads = "; " + s.Leader + " leads"
		}
		tables = append(tables, Table{Title: "Components", Lines: []string{
			"  allocator    " + s.Components.Allocator.String() + leads, "  lbnodeagent  " + s.Components.LBNodeAgent.String(), "  k8gobgp      " + s.Components.K8gobgp.String()}})
	}
	pools := s.Pools.Tables()[0]
	pools.Title = "Pools"
	election := s.Election.Tables()[0]
	election.Title = "Election"
	tables = append(tables, pools, election)
	if len(s.BGP) > 0 {
		tables = append(tables, TableOf("BGP", s.BGP))
	}
	sum := s.Services.Summary
	services := "  unknown"
	if sum != nil {
		services = fmt.Sprintf("  %s with %s: %d OK, %d with problems", counted(sum.Total, "Service", "Services"), counted(sum.IPs, "address", "addresses"), sum.OK, sum.Problems)
	}
	tables = append(tables, Table{Title: "Services", Lines: []string{services}})
	overall := Table{Title: "Overall: " + s.Overall}
	for _, line := range atMost(most, s.Warnings, "and %d more; -o wide has all, and \"kubectl purelb services --problems\" lists Services") {
		overall.Lines = append(overall.Lines, "  "+line)
	}
	return append(append(tables, overall), unreadTable(s.Unread)...)
}
