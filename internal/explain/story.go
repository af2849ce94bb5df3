package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/buildinfo"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/service"
)

// Story explains one object in sentences.
type Story struct {
	Subject string `json:"subject"`
	// Summary is the answer in one sentence.
	Summary string `json:"summary"`
	// Code is the reason that the programs give for the same problem. See is its place in the
	// manual.
	Code     string    `json:"code,omitempty"`
	See      string    `json:"see,omitempty"`
	Problem  bool      `json:"problem"`
	Sections []Section `json:"sections"`
	Unread   []Unread  `json:"unknown,omitempty"`
	// Inspection is nil, except in the answer of Inspect.
	*Inspection `json:",inline"`
}

// Section is a part of a Story.
type Section struct {
	Title string   `json:"title"`
	Lines []string `json:"lines"`
}

// setSummary sets the summary.
func (s *Story) setSummary(problem bool, code, summary string) {
	s.Problem, s.Code, s.Summary = problem, code, summary
	if anchored(code) {
		s.See = manual("refusals.md#" + strings.ToLower(code))
	}
}

// manual returns the address of a place in the manual of this version.
func manual(place string) string {
	return "https://github.com/purelb/purelb/blob/" + buildinfo.Tag() + "/docs/" + place
}

// anchored reports whether docs/refusals.md has a section of that name.
func anchored(code string) bool {
	return slices.Contains(ipam.Reasons(), code) || slices.Contains([]string{
		config.ReasonParseError, config.ReasonOverlaps, config.ReasonClusterNetwork, config.ReasonDuplicate, config.ReasonOutOfScope}, code)
}

// add adds a section, unless the section would be empty.
func (s *Story) add(title string, lines ...string) {
	if len(lines) > 0 {
		s.Sections = append(s.Sections, Section{title, lines})
	}
}

// Tables returns the tables of s.
func (s Story) Tables() []Table {
	first := Table{Lines: []string{s.Summary}}
	if s.See != "" {
		first.Lines = append(first.Lines, "See "+s.See+" ["+s.Code+"]")
	}
	tables := []Table{first}
	for _, one := range s.Sections {
		t := Table{Title: one.Title}
		for _, line := range one.Lines {
			t.Lines = append(t.Lines, "  "+line)
		}
		tables = append(tables, t)
	}
	return append(tables, unreadTable(s.Unread)...)
}

// standings returns the lines about the groups that were tried for families.
func (v *view) standings(r service.Request, c ipam.Cluster, families []addr.Family) []string {
	var lines []string
	for _, f := range families {
		for _, s := range c.Survey(r, f) {
			line := s.Group + ": " + s.Why
			switch {
			case s.Place == 0:
				line = s.Group + ": not tried, because " + s.Why
			case s.Free.IsValid():
				line += "; it gives " + s.Free.String()
			case s.Lacks != "":
				line += "; " + s.Lacks
			}
			if len(families) > 1 {
				line = f.String() + ", " + line
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// candidacies returns the lines about the candidates for the address of o.
func (v *view) candidacies(o announce.Outlook) []string {
	var lines []string
	for _, c := range announce.Candidates(v.peers.Members, o.IP, o.Preference) {
		switch {
		case o.Undecided && c.Fit:
			c.Why += "; whether it is chosen depends on the endpoints of the Service, which are not looked at"
		case c.Node == o.Choice.Node:
			c.Why = "chosen: " + o.Why()
		case c.Fit:
			c.Why = "not chosen: " + c.Why + "; " + o.Choice.Node + " comes first"
		default:
			c.Why = "not a candidate: " + c.Why
		}
		lines = append(lines, c.Node+": "+c.Why)
	}
	for _, n := range v.nodes {
		if !n.Alive {
			lines = append(lines, n.Node+": not a candidate: its Lease ended "+short(n.expires.Sub(v.Now))+" ago")
		}
	}
	return lines
}

// whereabouts says in one sentence which nodes announce the address of o.
func (v *view) whereabouts(o announce.Outlook) string {
	if why := v.unannounced(o); why != "" {
		return why
	}
	at, announced := service.SlotOf(slots(v.objects[o.Service]), o.IP)
	switch why := v.unknown(KindLeases); {
	case why != "" && announced:
		return fmt.Sprintf("by its annotations node %s announces it on %s; whether that node lives is %s", at.Node, at.Interface, why)
	case why != "":
		return "which nodes announce it is " + why
	case o.Idle && !o.Undecided:
		return "no node announces it while no Service that has it has an endpoint (withdrawWithoutEndpoints)"
	}
	if o.Where == announce.Remote {
		if o.Undecided {
			return "whether nodes announce it on their dummy interface depends on the endpoints of the Services that have it"
		}
		if o.Narrow {
			return "the nodes with a ready endpoint of the Service announce it on their dummy interface (externalTrafficPolicy Local)"
		}
		return "all nodes announce it on their dummy interface as " + o.Prefix.String()
	}
	if !announced {
		return "which node announces it depends on the endpoints of the Service, which are " + cmp.Or(v.unknown(KindEndpoints), "unknown")
	}
	return "node " + at.Node + " announces it on " + at.Interface
}

// skips returns the lines about the addresses of the pool before a that were not given. It reads
// only the first addresses of the pool: a pool of IPv6 may have more than a process can count.
func skips(c ipam.Cluster, a netip.Addr) []string {
	const mostLines, mostRead = 8, 4096
	_, p, ok := c.GroupOf(a)
	if !ok {
		return nil
	}
	var lines []string
	read := 0
	for before := p.Range.From; before.Less(a); before = before.Next() {
		if read++; len(lines) == mostLines || read > mostRead {
			return append(lines, "and more")
		}
		if why := c.Unfree(before); why != "" {
			lines = append(lines, before.String()+" was skipped, because "+why)
		}
	}
	return lines
}
