package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	bubbles "charm.land/bubbles/v2/list"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"purelb.io/purelb/internal/explain"
)

// screen is the state of the dashboard. Update and View use nothing else.
type screen struct {
	world  explain.World
	status explain.Status
	moves  explain.Table
	// failed says why the last reading failed, so that the world is stale.
	failed string
	page   int
	head   string
	rows   bubbles.Model
	// story is the text about a row. It is shown if reading is true.
	story   viewport.Model
	reading bool
}

// news is a new reading of the cluster.
type news struct {
	world explain.World
	err   error
}

// screenRow is a row of a page. subject is the argument of "explain" for it.
type screenRow struct {
	text, subject string
	fine          bool
}

// FilterValue implements list.Item.
func (r screenRow) FilterValue() string { return r.text }

// pages are the pages of the dashboard: a table, mostly of another command, with some of its columns. The first cells
// name the subject of a row, of which kind explain knows. A row is fine if the column state begins with fine.
var pages = []struct {
	name        string
	table       func(screen) (explain.Table, error)
	columns     []string
	kind        string
	state, fine string
}{
	{"Addresses", func(s screen) (explain.Table, error) { return first(explain.ServicesOf(s.world, explain.Filter{})) }, []string{"NAMESPACE", "SERVICE", "IPS", "ANNOUNCING", "STATUS"}, explain.OfService, "STATUS", explain.OverallOK},
	{"Problems", problems, []string{"PROBLEM"}, "", "PROBLEM", "none"},
	{"Pools", func(s screen) (explain.Table, error) { return first(explain.PoolsOf(s.world, explain.Filter{})) }, []string{"SERVICEGROUP", "POOL RANGE", "SIZE", "USED", "AVAIL", "UTIL%"}, explain.OfGroup, "", ""},
	{"Nodes", func(s screen) (explain.Table, error) { return first(explain.ElectionOf(s.world, "", "")) }, []string{"NODE", "HEALTHY", "ANNOUNCING", "SUBNETS"}, explain.OfNode, "HEALTHY", "yes"},
	{"BGP", func(s screen) (explain.Table, error) { return first(explain.SessionsOf(s.world, "")) }, []string{"NODE", "NEIGHBOR", "PEER ASN", "STATE", "UPTIME", "PREFIXES"}, explain.OfNode, "STATE", "Established"},
	{"Moves", func(s screen) (explain.Table, error) { return s.moves, nil }, moved, explain.OfService, "", ""},
}

// moved are the columns of the moves.
var moved = []string{"NAMESPACE", "SERVICE", "TIME", "FROM", "TO"}

// first returns the first table of an answer.
func first[A answer](a A, err error) (explain.Table, error) {
	if err != nil {
		return explain.Table{}, err
	}
	return a.Tables()[0], nil
}

func problems(s screen) (t explain.Table, _ error) {
	t.Head = []string{"PROBLEM"}
	for _, w := range s.status.Warnings {
		t.Rows = append(t.Rows, []string{w})
	}
	return t, nil
}

func newScreen() screen {
	s := screen{rows: bubbles.New(nil, drawn{}, 0, 0), story: viewport.New(), failed: "the cluster is being read"}
	s.story.SoftWrap = true
	s.moves.Head = moved
	s.rows.SetShowTitle(false)
	s.rows.SetShowStatusBar(false)
	s.rows.SetShowPagination(false)
	s.rows.Styles.TitleBar = lipgloss.NewStyle()
	s.rows.Filter = bubbles.UnsortedFilter
	s.rows.KeyMap.Quit.SetKeys("q")
	s.rows.KeyMap.Quit.SetHelp("q", "quit")
	s.rows.AdditionalShortHelpKeys = func() []key.Binding {
		return []key.Binding{
			key.NewBinding(key.WithKeys("tab"), key.WithHelp("tab", "page")),
			key.NewBinding(key.WithKeys("enter"), key.WithHelp("enter", "why")),
		}
	}
	s.rows.AdditionalFullHelpKeys = s.rows.AdditionalShortHelpKeys
	return s
}

// drawn draws a row.
type drawn struct{}

// Height implements list.ItemDelegate.
func (drawn) Height() int { return 1 }

// Spacing implements list.ItemDelegate.
func (drawn) Spacing() int { return 0 }

// Update implements list.ItemDelegate.
func (drawn) Update(tea.Msg, *bubbles.Model) tea.Cmd { return nil }

// Render implements list.ItemDelegate.
func (drawn) Render(to io.Writer, m bubbles.Model, index int, item bubbles.Item) {
	row, style, mark := item.(screenRow), lipgloss.NewStyle().MaxWidth(m.Width()), "  "
	if !row.fine {
		style, mark = style.Foreground(lipgloss.Red), "! "
	}
	if index == m.Index() {
		style, mark = style.Reverse(true), ">"+mark[:1]
	}
	fmt.Fprint(to, style.Render(mark+row.text))
}

// Init implements tea.Model.
func (s screen) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (s screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch m := msg.(type) {
	case tea.WindowSizeMsg:
		s.rows.SetSize(m.Width, max(1, m.Height-4)) // the lines around the rows
		s.story.SetWidth(m.Width)
		s.story.SetHeight(max(1, m.Height-4))
		return s, nil
	case news:
		s = s.learn(m)
		return s, s.fill()
	case tea.KeyPressMsg:
		switch name := m.String(); {
		case s.rows.SettingFilter():
		case s.reading && slices.Contains([]string{"esc", "enter", "left"}, name):
			s.reading = false
			return s, nil
		case s.reading && name != "q" && name != "ctrl+c":
			s.story, cmd = s.story.Update(msg)
			return s, cmd
		case name == "enter":
			return s.explain(), nil
		case name == "tab":
			return s.turn(s.page + 1)
		case name == "shift+tab":
			return s.turn(s.page - 1)
		case len(name) == 1 && name >= "1" && name <= "6":
			return s.turn(int(name[0] - '1'))
		}
	}
	s.rows, cmd = s.rows.Update(msg)
	return s, cmd
}

// learn adds a new reading.
func (s screen) learn(n news) screen {
	if n.err != nil {
		s.failed = oneLine(n.err)
		return s
	}
	s.moves.Rows = append(movesBetween(s.world, n.world), s.moves.Rows...)
	s.moves.Rows = s.moves.Rows[:min(len(s.moves.Rows), maxMoves)]
	s.world, s.status, s.failed = n.world, explain.StatusOf(n.world), ""
	return s
}

// turn shows another page.
func (s screen) turn(page int) (tea.Model, tea.Cmd) {
	s.page = (page + len(pages)) % len(pages)
	s.rows.ResetFilter()
	s.rows.Select(0)
	return s, s.fill()
}

// widest is how wide a column may be that is not the last one.
const widest = 31

// fill reads the rows of the page.
func (s *screen) fill() tea.Cmd {
	p := pages[s.page]
	all, err := p.table(*s)
	if err != nil {
		s.head = oneLine(err)
		return s.rows.SetItems(nil)
	}
	t := explain.Table{Head: p.columns}
	at := func(row []string, column string) string { return row[slices.Index(all.Head, column)] }
	for _, row := range all.Rows {
		var cells []string
		for i, column := range p.columns {
			cell := at(row, column)
			if i+1 < len(p.columns) {
				cell = lipgloss.NewStyle().MaxWidth(widest).Render(cell)
			}
			cells = append(cells, cell)
		}
		t.Rows = append(t.Rows, cells)
	}
	var text strings.Builder
	printTable(&text, t)
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	s.head = lines[0]
	items := []bubbles.Item{}
	for i, row := range all.Rows {
		r := screenRow{text: lines[i+1], subject: at(row, p.columns[0]), fine: p.state == "" || strings.HasPrefix(at(row, p.state), p.fine)}
		if p.kind == explain.OfService {
			r.subject += "/" + at(row, p.columns[1])
		}
		items = append(items, r)
	}
	return s.rows.SetItems(items)
}

// explain opens the story of the chosen row.
func (s screen) explain() screen {
	row, chosen := s.rows.SelectedItem().(screenRow)
	if !chosen {
		return s
	}
	var text strings.Builder
	text.WriteString(plain(row.subject) + "\n\n")
	for _, one := range explainables {
		if one.kind == pages[s.page].kind {
			story, err := one.story(s.world, row.subject)
			if err != nil {
				story.Summary = oneLine(err)
			}
			_ = printTables(&text, story.Tables())
		}
	}
	s.story.SetContent(text.String())
	s.story.GotoTop()
	s.reading = true
	return s
}

// maxMoves is how many moves the dashboard remembers.
const maxMoves = 100

// movesBetween returns the Services whose announcers differ between two worlds, the last first.
func movesBetween(before, after explain.World) (moves [][]string) {
	old, err := explain.ServicesOf(before, explain.Filter{})
	if err != nil {
		return nil
	}
	now, _ := explain.ServicesOf(after, explain.Filter{})
	was := map[string]string{}
	for _, s := range old.Services {
		was[s.Namespace+"/"+s.Service] = strings.Join(s.Announcing, ",")
	}
	for _, s := range now.Services {
		if from, known := was[s.Namespace+"/"+s.Service]; known && from != strings.Join(s.Announcing, ",") {
			moves = append(moves, []string{s.Namespace, s.Service, after.Now.UTC().Format(time.TimeOnly), cmp.Or(from, "-"), cmp.Or(strings.Join(s.Announcing, ","), "-")})
		}
	}
	return moves
}

// View implements tea.Model.
func (s screen) View() tea.View {
	line := lipgloss.NewStyle().MaxWidth(s.rows.Width())
	title := "PureLB"
	if c := s.status.Services.Summary; c != nil {
		title += fmt.Sprintf(": %s, %d of %d Services OK, %d addresses", s.status.Overall, c.OK, c.Total, c.IPs)
	}
	if !s.world.Now.IsZero() {
		title += ", at " + s.world.Now.UTC().Format(time.TimeOnly) + " UTC"
	}
	tabs := ""
	for i, p := range pages {
		name := fmt.Sprintf("%d %s", i+1, p.name)
		if i == s.page {
			name = fmt.Sprintf("[%s %d]", name, len(s.rows.Items()))
		}
		tabs += name + "  "
	}
	note := ""
	switch {
	case s.failed != "":
		note = "STALE: " + s.failed
	case len(s.status.Unread) > 0:
		note = "UNKNOWN: " + s.status.Unread[0].String()
	}
	head, body := "  "+s.head, s.rows.View()
	if s.reading {
		head, body = "(esc: back)", s.story.View()
	}
	v := tea.NewView(strings.Join([]string{line.Bold(true).Render(title), line.Render(tabs), line.Render(plain(head)), body, line.Foreground(lipgloss.Red).Render(plain(note))}, "\n"))
	v.AltScreen = true
	return v
}
