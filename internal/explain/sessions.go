package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
)

// Sessions are the BGP sessions of all nodes.
type Sessions struct {
	GlobalASN    int64     `json:"globalASN"`
	RouterIDMode string    `json:"routerIDMode"`
	Sessions     []Session `json:"sessions"`
	Problems     []string  `json:"problems"`
	Unread       []Unread  `json:"unknown,omitempty"`
}

// Session is one BGP session, as its node last reported it.
type Session struct {
	Node     string `json:"node" col:"NODE"`
	RouterID string `json:"routerID" col:"ROUTER ID"`
	Neighbor string `json:"neighbor" col:"NEIGHBOR"`
	PeerASN  int64  `json:"peerASN" col:"PEER ASN"`
	LocalASN int64  `json:"localASN"`
	State    string `json:"state"`
	// state and prefixes are for people.
	state string `col:"STATE"`
	// Since is when the session was established.
	Since            *time.Time `json:"since,omitempty"`
	Uptime           string     `json:"uptime" col:"UPTIME"`
	prefixes         string     `col:"PREFIXES"`
	PrefixesSent     int64      `json:"prefixesSent"`
	PrefixesReceived int64      `json:"prefixesReceived"`
	// Selector selects the nodes that peer with the neighbor. The BGPConfiguration has it.
	Selector    string `json:"selector" col:"SELECTOR"`
	Description string `json:"description,omitempty"`
	BFD         string `json:"bfd,omitempty"`
	LastError   string `json:"lastError,omitempty"`
	// Stale says that the speaker no longer reports, so that the state is old.
	Stale bool `json:"stale"`
}

const established = "Established"

// SessionsOf lists the sessions of a node, or of all nodes without one.
func SessionsOf(w World, node string) (Sessions, error) {
	if err := w.needs("which BGP sessions there are", KindNodeStatuses); err != nil {
		return Sessions{}, err
	}
	v := newView(w)
	if err := v.hasSpeaker(node); err != nil {
		return Sessions{}, err
	}
	s := Sessions{Problems: v.speakerProblems(node), Unread: v.unread(KindConfigurations, KindNodeStatuses)}
	if c := v.configurationOf(node); c != nil {
		s.GlobalASN, s.RouterIDMode = c.Spec.Global.ASN, routerIDMode(c.Spec.Global.RouterID)
	}
	for _, one := range v.speakers(node) {
		stale, c := v.silence(one) != "", v.configurationOf(one.NodeName)
		for _, n := range one.Neighbors {
			session := v.session(one, n, c)
			if session.Stale = stale; stale {
				session.state = "unknown (was " + n.State + ")"
			}
			s.Sessions = append(s.Sessions, session)
		}
	}
	return s, nil
}

// hasSpeaker returns an error if node names a node without a BGP report.
func (v *view) hasSpeaker(node string) error {
	if node == "" || len(v.speakers(node)) > 0 {
		return nil
	}
	return fmt.Errorf("there is no BGPNodeStatus of a node %q: no speaker has run on it", node)
}

// speakers returns the reports of the speakers, of one node or of all, sorted by node.
func (v *view) speakers(node string) []bgpv1.BGPNodeStatusStatus {
	var all []bgpv1.BGPNodeStatusStatus
	for _, n := range v.NodeStatuses {
		if node == "" || n.Status.NodeName == node {
			all = append(all, n.Status)
		}
	}
	slices.SortFunc(all, func(a, b bgpv1.BGPNodeStatusStatus) int { return cmp.Compare(a.NodeName, b.NodeName) })
	return all
}

// speakerProblems returns what is wrong with whole speakers.
func (v *view) speakerProblems(node string) []string {
	var problems []string
	shared := v.sharedRouterIDs()
	for _, one := range v.speakers(node) {
		if silent := v.silence(one); silent != "" {
			problems = append(problems, "node "+one.NodeName+": "+silent)
			continue
		}
		if nodes := shared[one.RouterID]; len(nodes) > 1 {
			problems = append(problems, fmt.Sprintf("node %s: %d nodes have the router ID %s, and route reflectors drop routes between them: %s",
				one.NodeName, len(nodes), one.RouterID, changeRouterID(one.RouterIDSource)))
		}
		c := meta.FindStatusCondition(one.Conditions, bgpv1.ConditionConfigured)
		if c != nil && c.Status == metav1.ConditionFalse && c.Reason != peering.ReasonNotConfigured {
			problems = append(problems, fmt.Sprintf("node %s: of the BGPConfiguration this is not in effect (%s): %s", one.NodeName, c.Reason, c.Message))
		}
		if c := meta.FindStatusCondition(one.Conditions, bgpv1.ConditionReady); c != nil && c.Status == metav1.ConditionFalse {
			problems = append(problems, "node "+one.NodeName+": "+c.Message)
		}
	}
	return problems
}

// sharedRouterIDs returns the nodes whose speakers are alive, by router ID.
func (v *view) sharedRouterIDs() map[string][]string {
	nodes := map[string][]string{}
	for _, one := range v.speakers("") {
		if one.RouterID != "" && v.silence(one) == "" {
			nodes[one.RouterID] = append(nodes[one.RouterID], one.NodeName)
		}
	}
	return nodes
}

// changeRouterID says how to change a router ID that is from this source.
func changeRouterID(source string) string {
	switch source {
	case peering.RouterIDExplicit:
		return "remove global.routerID, or write ${NODE_IP}"
	case peering.RouterIDHash:
		return "rename a node, or write a larger global.routerIDPool"
	}
	return "give the nodes different addresses or annotations"
}

// routerIDMode says where the router IDs come from.
func routerIDMode(text string) string {
	switch {
	case text == "":
		return "automatic"
	case strings.Contains(text, "$"):
		return "template"
	}
	return "explicit"
}

func (v *view) session(node bgpv1.BGPNodeStatusStatus, n bgpv1.NodeNeighbor, c *bgpv1.BGPConfiguration) Session {
	s := Session{
		Node: node.NodeName, RouterID: node.RouterID, Neighbor: n.Address, PeerASN: n.PeerASN, LocalASN: n.LocalASN, State: n.State,
		PrefixesSent: n.PrefixesSent, PrefixesReceived: n.PrefixesReceived, Selector: selectorOf(c, n),
		Description: n.Description, BFD: n.BFD, LastError: n.LastError,
		state: n.State, prefixes: fmt.Sprintf("%d sent, %d received", n.PrefixesSent, n.PrefixesReceived),
	}
	if n.SessionUpSince != nil && n.State == established {
		s.Since = &n.SessionUpSince.Time
		if !v.Now.IsZero() {
			s.Uptime = short(v.Now.Sub(n.SessionUpSince.Time))
		}
	}
	return s
}

// selectorOf returns the node selector of n.
func selectorOf(c *bgpv1.BGPConfiguration, n bgpv1.NodeNeighbor) string {
	switch one := entryOf(c, n); {
	case one == nil:
		return ""
	case one.NodeSelector != nil:
		return metav1.FormatLabelSelector(one.NodeSelector)
	}
	return "all nodes"
}

// entryOf returns the entry of n in c, or nil.
func entryOf(c *bgpv1.BGPConfiguration, n bgpv1.NodeNeighbor) *bgpv1.Neighbor {
	if c == nil {
		return nil
	}
	for i, one := range c.Spec.Neighbors {
		if one.Config.NeighborAddress == n.Address || n.Interface != "" && one.Config.NeighborInterface == n.Interface {
			return &c.Spec.Neighbors[i]
		}
	}
	return nil
}

// Tables returns the tables of s.
func (s Sessions) Tables() []Table {
	return slices.Concat([]Table{TableOf("", s.Sessions)}, problemsTable(s.Problems), unreadTable(s.Unread))
}
