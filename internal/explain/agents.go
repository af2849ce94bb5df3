package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/announce/agentstate"
	"purelb.io/purelb/internal/service"
)

// Subject is what a Story is about. Kind is one of the words after "explain".
type Subject struct{ Kind, Name string }

// The kinds of a Subject.
const (
	OfService = "service"
	OfIP      = "ip"
	OfGroup   = "group"
	OfNode    = "node"
)

// Wants are the sources that only some Stories need, because each costs requests.
type Wants struct {
	// Routes asks for the BGPNodeStatuses, because the Story is about remote addresses.
	Routes bool
	// Agents are the nodes whose agents know more than the API server. Addresses are the addresses
	// to ask these agents about. If Addresses is empty, the agents are asked about all.
	Agents    []string
	Addresses []netip.Addr
}

// WantsOf returns the sources that a Story about s needs in addition to w.
func WantsOf(w World, s Subject) Wants {
	v := newView(w)
	wants := Wants{Routes: s.Kind == OfNode}
	if s.Kind == OfNode && v.lives(s.Name) {
		wants.Agents = []string{s.Name}
	}
	ip, _ := netip.ParseAddr(s.Name)
	for _, o := range v.addresses() {
		if asked := s.Kind == OfService && s.Name == o.Service || s.Kind == OfIP && o.IP == ip.Unmap(); !asked {
			continue
		}
		wants.Routes = wants.Routes || o.Where == announce.Remote
		if o.Where == announce.Local {
			wants.Addresses = append(wants.Addresses, o.IP)
			wants.Agents = append(wants.Agents, v.concerned(o)...)
		}
	}
	slices.Sort(wants.Agents)
	wants.Agents = slices.Compact(wants.Agents)
	slices.SortFunc(wants.Addresses, netip.Addr.Compare)
	wants.Addresses = slices.Compact(wants.Addresses) // Services can share an address
	return wants
}

// concerned returns the live nodes that have the local address of o or should have it.
func (v *view) concerned(o announce.Outlook) []string {
	at, _ := service.SlotOf(slots(v.objects[o.Service]), o.IP)
	return slices.DeleteFunc([]string{at.Node, o.Choice.Node}, func(node string) bool { return !v.lives(node) })
}

// failureAt says why the agent of node does not have ip, although it should. It returns "" if the
// agent has ip, or was not asked.
func (v *view) failureAt(node string, ip netip.Addr) string {
	if state := v.AgentStates[node]; state != nil {
		if a := find(state.NotHere, isIP(ip)); a != nil {
			return a.Failure
		}
	}
	return ""
}

// itsAgentSays returns the end of a sentence: the agent's reason why the chosen node does not have
// the address of o. It returns "" if the agent gives no reason.
func (v *view) itsAgentSays(o announce.Outlook) string {
	if why := v.failureAt(o.Choice.Node, o.IP); why != "" {
		return ", and its agent says: " + why
	}
	return ""
}

// addAgents adds the answers of the agents about the local addresses of outlooks.
func (v *view) addAgents(s *Story, outlooks []announce.Outlook) {
	var lines []string
	for _, o := range outlooks {
		for _, n := range v.nodes {
			state := v.AgentStates[n.Node]
			if state == nil || o.Where != announce.Local || !slices.Contains(v.concerned(o), n.Node) && find(state.Here, isIP(o.IP)) == nil {
				continue
			}
			lines = append(lines, addressLines(*state, o.IP)...)
		}
	}
	s.add("What the agents say", lines...)
}

// isIP returns whether an address of an agent is ip.
func isIP(ip netip.Addr) func(agentstate.Address) bool {
	return func(a agentstate.Address) bool { return a.IP == ip }
}

// addressLines describes what an agent knows of ip.
func addressLines(state agentstate.State, ip netip.Addr) []string {
	begin := state.Node + ": " + ip.String()
	var lines []string
	if here := find(state.Here, isIP(ip)); here != nil {
		lines = append(lines, begin+" is on "+here.Interface)
		if here.AnswersBy != "" {
			lines = append(lines, state.Node+": clients outside of its network get their answers by "+here.AnswersBy+
				", the interface of the default route, which a router may drop: see "+manual("your-network.md#second-cards"))
		}
	} else if a := find(state.NotHere, isIP(ip)); a != nil {
		lines = append(lines, begin+" is not here: "+strings.TrimSuffix(a.Why+"; "+a.Failure, "; "))
	} else if !state.Complete {
		lines = append(lines, state.Node+": the agent has not read all of its objects yet")
	}
	for _, c := range state.Conflicts {
		if c.IP == ip {
			lines = append(lines, fmt.Sprintf("%s is claimed by the machine with MAC %s on %s, too", begin, c.MAC, c.Link))
		}
	}
	return lines
}

// listedLines is how many lines a section has about one node.
const listedLines = 8

// addAgent adds what the agent of a node knows of itself.
func (v *view) addAgent(s *Story, node string) {
	state := v.AgentStates[node]
	if state == nil {
		if s.Problem {
			s.Unread = v.unheardAgents(s.Unread)
		}
		return
	}
	var lines, failed []string
	if !state.Complete {
		lines = append(lines, "it has not read all of its objects yet, and changes nothing until then")
	}
	for _, a := range state.NotHere {
		if a.Failure != "" {
			failed = append(failed, fmt.Sprintf("%s of %s is not on the node: %s", a.IP, a.Service, a.Failure))
		}
	}
	if !s.Problem && len(failed) > 0 {
		s.setSummary(true, s.Code, "node "+node+" does not have an address that it should have: "+failed[0])
	}
	lines = append(lines, atMost(listedLines, failed, "and %d more")...)
	for _, e := range state.Errors[:min(len(state.Errors), listedLines)] {
		lines = append(lines, "its last pass failed: "+strings.TrimSpace(e))
	}
	s.add("What its agent says", lines...)
}
