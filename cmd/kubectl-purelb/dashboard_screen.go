package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"purelb.io/purelb/internal/explain"
)

// dashPage is one page of the dashboard. It has rows below a head, or a text if it has no rows.
type dashPage struct {
	name string
	head []string
	rows []dashRow
	text string
}

// dashRow is a row of a page. kind and subject are the arguments of "explain" for this row.
type dashRow struct {
	cells   []string
	problem bool
	kind    string
	subject string
}

// The values of dashRow.kind.
const (
	storyService = "service"
	storyGroup   = "group"
	storyNode    = "node"
)

// dashMove is an address that changed its node.
type dashMove struct {
	at                time.Time
	service, from, to string
}

// maxMoves is how many moves the dashboard remembers.
const maxMoves = 100

// pagesOf returns the pages for w.
func pagesOf(w explain.World, moves []dashMove) []dashPage {
	return []dashPage{addressPage(w, false), addressPage(w, true), poolPage(w), nodePage(w), bgpPage(w), movePage(moves)}
}

func addressPage(w explain.World, problems bool) dashPage {
	p := dashPage{name: "Addresses", head: []string{"SERVICE", "ADDRESSES", "ANNOUNCED BY", "STATUS"}}
	if problems {
		p.name, p.head = "Problems", []string{"SERVICE", "STATUS", "WHY"}
	}
	all, err := explain.ServicesOf(w, explain.Filter{Problems: problems})
	if err != nil {
		p.text = oneLine(err)
		return p
	}
	for _, s := range all.Services {
		key := s.Namespace + "/" + s.Service
		status := s.Status
		if s.Code != "" {
			status += " (" + s.Code + ")"
		}
		row := dashRow{problem: s.Status != explain.OverallOK, kind: storyService, subject: key}
		if problems {
			row.cells = []string{key, status, s.Message}
		} else {
			row.cells = []string{key, strings.Join(s.IPs, ","), strings.Join(s.Announcing, ","), status}
		}
		p.rows = append(p.rows, row)
	}
	if len(p.rows) == 0 {
		p.text = map[bool]string{false: "PureLB serves no Service", true: "no Service has a problem"}[problems]
	}
	return p
}

func poolPage(w explain.World) dashPage {
	p := dashPage{name: "Pools", head: []string{"GROUP", "TYPE", "RANGE", "USED", "FREE", "UTIL%"}}
	pools, err := explain.PoolsOf(w, explain.Filter{}, false)
	if err != nil {
		p.text = oneLine(err)
		return p
	}
	for _, g := range pools.ServiceGroups {
		for _, r := range g.Ranges {
			used, free, util := "?", "?", "?"
			if r.Used != nil {
				used = fmt.Sprint(*r.Used)
			}
			if r.Available != nil {
				free = r.Available.String()
			}
			if r.UtilPercent != nil {
				util = fmt.Sprintf("%.1f", *r.UtilPercent)
			}
			p.rows = append(p.rows, dashRow{cells: []string{g.Name, g.Type, r.Pool, used, free, util}, problem: free == "0", kind: storyGroup, subject: g.Name})
		}
	}
	if len(p.rows) == 0 {
		p.text = "there is no usable ServiceGroup"
	}
	return p
}

func nodePage(w explain.World) dashPage {
	p := dashPage{name: "Nodes", head: []string{"NODE", "HEALTHY", "ANNOUNCES", "SUBNETS", "PROBLEM"}}
	e, err := explain.ElectionOf(w, "", "")
	if err != nil {
		p.text = oneLine(err)
		return p
	}
	for _, n := range e.Nodes {
		healthy, announcing := "no", "?"
		if n.Healthy {
			healthy = "yes"
		}
		if n.Announcing != nil {
			announcing = fmt.Sprint(*n.Announcing)
		}
		problem := strings.TrimPrefix(n.Draining+"; "+n.Problem, "; ")
		p.rows = append(p.rows, dashRow{
			cells:   []string{n.Node, healthy, announcing, strings.Join(n.Subnets, ","), strings.TrimSuffix(problem, "; ")},
			problem: !n.Healthy || n.Problem != "", kind: storyNode, subject: n.Node,
		})
	}
	if len(p.rows) == 0 {
		p.text = "no agent has a Lease"
	}
	return p
}

func bgpPage(w explain.World) dashPage {
	p := dashPage{name: "BGP", head: []string{"NODE", "NEIGHBOR", "ASN", "STATE", "UPTIME", "PREFIXES", "LAST ERROR"}}
	s, err := explain.SessionsOf(w, "")
	if err != nil {
		p.text = oneLine(err)
		return p
	}
	for _, one := range s.Sessions {
		state := one.State
		if one.Stale {
			state = "unknown (was " + state + ")"
		}
		p.rows = append(p.rows, dashRow{
			cells: []string{
				one.Node, one.Neighbor, fmt.Sprint(one.PeerASN), state, one.Uptime,
				fmt.Sprintf("%d/%d", one.PrefixesSent, one.PrefixesReceived), one.LastError,
			},
			problem: one.Stale || one.State != "Established", kind: storyNode, subject: one.Node,
		})
	}
	if len(p.rows) == 0 {
		p.text = "no node has a BGP session"
	}
	return p
}

func movePage(moves []dashMove) dashPage {
	p := dashPage{name: "Moves", head: []string{"TIME", "SERVICE", "FROM", "TO"}}
	for _, m := range slices.Backward(moves) {
		p.rows = append(p.rows, dashRow{cells: []string{m.at.UTC().Format(time.TimeOnly), m.service, m.from, m.to}, kind: storyService, subject: m.service})
	}
	if len(p.rows) == 0 {
		p.text = "no address has moved since the dashboard began"
	}
	return p
}

// movesBetween returns the Services whose announcers differ between two worlds.
func movesBetween(before, after explain.World) []dashMove {
	old, err1 := explain.ServicesOf(before, explain.Filter{})
	now, err2 := explain.ServicesOf(after, explain.Filter{})
	if err1 != nil || err2 != nil {
		return nil
	}
	was := map[string]string{}
	for _, s := range old.Services {
		was[s.Namespace+"/"+s.Service] = strings.Join(s.Announcing, ",")
	}
	var moves []dashMove
	for _, s := range now.Services {
		key, is := s.Namespace+"/"+s.Service, strings.Join(s.Announcing, ",")
		if from, known := was[key]; known && from != is {
			moves = append(moves, dashMove{after.Now, key, orNone(from), orNone(is)})
		}
	}
	return moves
}

func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// lay formats the head and the rows in columns. No line is wider than width.
func lay(p dashPage, rows []dashRow, width int) (head string, lines []string) {
	widths := make([]int, len(p.head))
	for i, name := range p.head {
		widths[i] = len(name)
	}
	for _, r := range rows {
		for i, c := range r.cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	fit(widths, width-2*(len(widths)-1))
	line := func(cells []string) string {
		var parts []string
		for i, c := range cells {
			c = plain(orNone(c))
			if i < len(cells)-1 {
				c = fmt.Sprintf("%-*s", widths[i], cut(c, widths[i]))
			}
			parts = append(parts, c)
		}
		return cut(strings.TrimRight(strings.Join(parts, "  "), " "), width)
	}
	for _, r := range rows {
		lines = append(lines, line(r.cells))
	}
	return line(p.head), lines
}

// fit reduces the width of the widest column until all columns fit into width. So a column with
// long cells leaves room for the others.
func fit(widths []int, width int) {
	const least = 4
	for {
		sum, widest := 0, 0
		for i, w := range widths {
			sum += w
			if w > widths[widest] {
				widest = i
			}
		}
		if sum <= width || widths[widest] <= least {
			return
		}
		widths[widest]--
	}
}

// cut shortens text to width characters.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:max(0, width-1)]) + "…"
}
