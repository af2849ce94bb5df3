package probe

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Summary is what the answers of all agents mean together.
type Summary struct {
	Address netip.Addr `json:"address"`
	Summary string     `json:"summary"`
	// Problem says that the answers show a fault, or that the result is not known.
	Problem bool     `json:"problem"`
	Answers []Answer `json:"answers"`
}

// Unanswered returns the Answer of a node whose agent could not be asked.
func Unanswered(node string, ip netip.Addr, why string) Answer {
	return Answer{Node: node, Address: ip, Result: Unknown, Why: why, Machines: []Machine{}, Controls: []Control{}}
}

// views sorts what agents saw.
type views struct {
	// foreign holds the MACs of machines that are no nodes. nodes holds the nodes that
	// answered. misled holds the nodes that answered although their agents do not have the address.
	// The values are the agents that saw the answer.
	foreign, nodes, misled map[string][]string
	// here are the nodes that have the address, on the link that was asked. silent are the
	// other nodes that heard no answer, although a control answered.
	here, silent []string
	// elsewhere are the nodes that have the address where no segment was asked.
	elsewhere []string
	unknown   []Answer
}

func sorted(answers []Answer) views {
	lacks := map[string]bool{}
	for _, a := range answers {
		lacks[a.Node] = !a.Here && a.Result != Unknown
	}
	v := views{foreign: map[string][]string{}, nodes: map[string][]string{}, misled: map[string][]string{}}
	for _, a := range answers {
		for _, m := range a.Machines {
			in, key := v.nodes, m.Node
			switch {
			case m.Node == "":
				in, key = v.foreign, m.MAC
			case lacks[m.Node]:
				in = v.misled
			}
			if !slices.Contains(in[key], a.Node) {
				in[key] = append(in[key], a.Node)
			}
		}
		switch {
		case a.Here && a.Result == OffLink:
			v.elsewhere = append(v.elsewhere, a.Node)
		case a.Here:
			v.here = append(v.here, a.Node)
		case a.Result == Silent:
			v.silent = append(v.silent, a.Node)
		}
		if a.Result == Unknown {
			v.unknown = append(v.unknown, a)
		}
	}
	return v
}

// Summarize joins the answers of all agents about ip. Its Summary is the first line that a
// user sees.
func Summarize(ip netip.Addr, answers []Answer) Summary {
	slices.SortFunc(answers, func(a, b Answer) int { return strings.Compare(a.Node, b.Node) })
	s := Summary{Address: ip, Answers: answers, Problem: true}
	v := sorted(answers)
	holders := maps.Clone(v.nodes)
	for _, node := range v.here {
		holders[node] = append(holders[node], node)
	}
	switch {
	case len(v.foreign) > 0:
		s.Summary = fmt.Sprintf("%s is answered by %s", ip, observed(v.foreign, "another machine, ", "other machines, "))
		if len(holders) > 0 {
			s.Summary += ", and is on " + nodes(slices.Sorted(maps.Keys(holders))) + " too"
		}
	case len(holders) > 1:
		s.Summary = fmt.Sprintf("%s is on %s: only one of them may answer", ip, nodes(slices.Sorted(maps.Keys(holders))))
	case len(v.misled) > 0:
		s.Summary = fmt.Sprintf("%s is answered by %s, which does not have it: end another load balancer there, or set arp_ignore=1 and arp_announce=2, and strictARP with IPVS",
			ip, observed(v.misled, "node ", "nodes "))
	case len(v.nodes) == 1 && len(v.silent) > 0:
		s.Summary = fmt.Sprintf("%s is answered by %s, but %s in the same network cannot hear that: %s", ip, observed(v.nodes, "node ", ""), nodes(v.silent), Dropped)
	case len(v.nodes) == 1:
		s.Summary, s.Problem = fmt.Sprintf("%s is answered by %s", ip, observed(v.nodes, "node ", "")), false
	case len(v.here) == 1 && len(v.silent) > 0:
		s.Summary = fmt.Sprintf("%s is on node %s, but %s in the same network cannot hear it: %s", ip, v.here[0], nodes(v.silent), Dropped)
	case len(v.here) == 1:
		s.Summary, s.Problem = fmt.Sprintf("%s is on node %s; no other machine answers for it, and no other node could ask", ip, v.here[0]), len(v.unknown) > 0
	default:
		s.Summary, s.Problem = unheld(ip, v)
	}
	return s
}

// Dropped says why nodes do not hear an address that another node has.
const Dropped = "the network drops its answers; look for port security, and for filters against MAC or IP spoofing, on the switch or hypervisor"

// unheld describes an address for which no machine answers.
func unheld(ip netip.Addr, v views) (summary string, problem bool) {
	switch {
	case len(v.silent) > 0:
		return fmt.Sprintf("no machine answers for %s: %s heard other machines of that network, and none for it", ip, nodes(v.silent)), false
	case len(v.unknown) > 0:
		return fmt.Sprintf("who answers for %s is unknown: node %s: %s", ip, v.unknown[0].Node, v.unknown[0].Why), true
	case len(v.elsewhere) > 0:
		return fmt.Sprintf("%s is in no network of a node: no segment can be asked, and routers know it by BGP from %s", ip, nodes(v.elsewhere)), false
	}
	return fmt.Sprintf("%s is in no network of a node: no segment can be asked", ip), false
}

// observed lists machines with the agents that saw them.
func observed(seen map[string][]string, one, many string) string {
	var parts []string
	for _, who := range slices.Sorted(maps.Keys(seen)) {
		parts = append(parts, fmt.Sprintf("%s (seen by %s)", who, list(seen[who])))
	}
	if len(parts) > 1 {
		one = many
	}
	return one + strings.Join(parts, " and ")
}

// listed is how many names a sentence has.
const listed = 4

// nodes lists nodes.
func nodes(names []string) string {
	if len(names) == 1 {
		return "node " + names[0]
	}
	return "nodes " + list(names)
}

func list(names []string) string {
	if len(names) <= listed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:listed], ", "), len(names)-listed)
}
