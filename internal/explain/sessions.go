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
	Node     string `json:"node"`
	RouterID string `json:"routerID"`
	Neighbor string `json:"neighbor"`
	PeerASN  int64  `json:"peerASN"`
	LocalASN int64  `json:"localASN"`
	State    string `json:"state"`
	// Since is when the session was established.
	Since            *time.Time `json:"since,omitempty"`
	Uptime           string     `json:"uptime"`
	PrefixesSent     int64      `json:"prefixesSent"`
	PrefixesReceived int64      `json:"prefixesReceived"`
	// Selector selects the nodes that peer with the neighbor. The BGPConfiguration has it.
	Selector    string `json:"selector"`
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
	s := Sessions{Sessions: []Session{}, Problems: v.speakerProblems(node), Unread: v.unread(KindConfigurations, KindNodeStatuses)}
	if c := v.configurationOf(node); c != nil {
		s.GlobalASN, s.RouterIDMode = c.Spec.Global.ASN, routerIDMode(c.Spec.Global.RouterID)
	}
	for _, one := range v.speakers(node) {
		stale, c := v.silence(one) != "", v.configurationOf(one.NodeName)
		for _, n := range one.Neighbors {
			session := v.session(one, n, c)
			session.Stale = stale
			s.Sessions = append(s.Sessions, session)
			if why := sessionProblem(c, n); why != "" && !stale {
				s.Problems = append(s.Problems, fmt.Sprintf("node %s: neighbor %s %s", one.NodeName, n.Address, why))
			}
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
	problems := []string{}
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
		if c != nil && c.Status == metav1.ConditionFalse {
			problems = append(problems, fmt.Sprintf("node %s: of the BGPConfiguration this is not in effect (%s): %s", one.NodeName, c.Reason, c.Message))
		}
		for _, failure := range failuresOf(one) {
			if strings.Contains(failure, peering.ToNoNeighbor) {
				problems = append(problems, "node "+one.NodeName+": "+failure)
			}
		}
	}
	return problems
}

// failuresOf returns why a speaker is not healthy.
func failuresOf(s bgpv1.BGPNodeStatusStatus) []string {
	c := meta.FindStatusCondition(s.Conditions, bgpv1.ConditionReady)
	if c == nil || c.Status == metav1.ConditionTrue {
		return nil
	}
	return strings.Split(c.Message, "; ")
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
	if c == nil {
		return ""
	}
	for _, one := range c.Spec.Neighbors {
		if one.Config.NeighborAddress != n.Address && (n.Interface == "" || one.Config.NeighborInterface != n.Interface) {
			continue
		}
		if one.NodeSelector != nil {
			return metav1.FormatLabelSelector(one.NodeSelector)
		}
		return "all nodes"
	}
	return ""
}

// sessionProblem says what is wrong with a session, or returns "".
func sessionProblem(c *bgpv1.BGPConfiguration, n bgpv1.NodeNeighbor) string {
	switch {
	case n.State != established && n.LastError != "" && !isOver(n.LastError):
		return "is " + n.State + ": " + n.LastError
	case n.State != established && hasPassword(c, n.Address):
		return "is " + n.State + ": the router does not answer, as it does if its password is not the one of the BGPConfiguration"
	case n.State != established:
		return "is " + n.State + ": the router does not answer; see that it has this node as a neighbor, without a password, and that TCP port 179 is open"
	case n.BFD != "" && n.BFD != "Up" && n.BFD != "AdminDown":
		return "has no BFD session, so that its loss is noticed late: BFD is " + n.BFD
	}
	return ""
}

// isOver reports whether lastError says at most why the session ended, and not why it stays down. The
// node resets the session when the BGPConfiguration changes, or BFD was down at one of the two ends
// (subcode 10, RFC 9384).
func isOver(lastError string) bool {
	if strings.HasPrefix(lastError, "state unchanged since ") {
		return true
	}
	_, notification, ok := strings.Cut(lastError, "code 6(cease) subcode ")
	return ok && (strings.HasPrefix(notification, "10(") ||
		strings.HasPrefix(lastError, "notification-sent") && strings.HasPrefix(notification, "4("))
}

// hasPassword reports whether c has a password for the neighbor with this address.
func hasPassword(c *bgpv1.BGPConfiguration, address string) bool {
	if c == nil {
		return false
	}
	has := func(p bgpv1.PeerConfig) bool { return p.AuthPassword != "" || p.AuthPasswordSecretRef != nil }
	for _, n := range c.Spec.Neighbors {
		if n.Config.NeighborAddress != address {
			continue
		}
		return has(n.Config.PeerConfig) || slices.ContainsFunc(c.Spec.PeerGroups, func(g bgpv1.PeerGroup) bool {
			return g.Config.PeerGroupName == n.Config.PeerGroup && has(g.Config.PeerConfig)
		})
	}
	return false
}

// Tables returns the tables of s.
func (s Sessions) Tables() []Table {
	t := Table{Head: []string{"NODE", "ROUTER ID", "NEIGHBOR", "PEER ASN", "STATE", "UPTIME", "PREFIXES", "SELECTOR"}}
	for _, one := range s.Sessions {
		state := one.State
		if one.Stale {
			state = "unknown (was " + one.State + ")"
		}
		t.Rows = append(t.Rows, []string{one.Node, orDash(one.RouterID), one.Neighbor, fmt.Sprint(one.PeerASN), state, orDash(one.Uptime),
			fmt.Sprintf("%d sent, %d received", one.PrefixesSent, one.PrefixesReceived), orDash(one.Selector)})
	}
	return slices.Concat([]Table{t}, problemsTable(s.Problems), unreadTable(s.Unread))
}

func problemsTable(problems []string) []Table { return linesTable("Problems", problems) }

// linesTable returns a table of lines, or none without lines.
func linesTable(title string, lines []string) []Table {
	if len(lines) == 0 {
		return nil
	}
	return []Table{{Title: title, Lines: lines}}
}
