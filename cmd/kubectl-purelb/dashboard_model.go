package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"purelb.io/purelb/internal/explain"
)

// dashboard is the state of the dashboard. Update and View use nothing else.
type dashboard struct {
	namespace     string
	width, height int
	color         bool

	world  explain.World
	known  bool
	status explain.Status
	pages  []dashPage
	moves  []dashMove
	// stale says why the data may be out of date. It is "" for current data.
	stale string

	page, cursor int
	filter       string
	filtering    bool
	help         bool
	// story is the text about one row, and scroll its first line on the screen.
	story  []string
	scroll int
}

// newsMsg is a new reading of the cluster. If the reading failed, err says why. stale names the
// missing watches.
type newsMsg struct {
	world explain.World
	err   error
	stale string
}

// Init implements tea.Model.
func (d dashboard) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (d dashboard) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch m := msg.(type) {
	case tea.WindowSizeMsg:
		d.width, d.height = m.Width, m.Height
	case newsMsg:
		d = d.learn(m)
	case tea.KeyPressMsg:
		return d.press(m.String())
	}
	return d, nil
}

// learn adds a new reading.
func (d dashboard) learn(m newsMsg) dashboard {
	d.stale = m.stale
	if m.err != nil {
		d.stale = oneLine(m.err)
		return d
	}
	if d.known {
		d.moves = append(slices.Clone(d.moves), movesBetween(d.world, m.world)...)
		d.moves = d.moves[max(0, len(d.moves)-maxMoves):]
	}
	d.world, d.known, d.status = m.world, true, explain.StatusOf(m.world)
	d.pages = pagesOf(d.world, d.moves)
	d.cursor = max(0, min(d.cursor, len(d.rows())-1))
	return d
}

// press handles a key.
func (d dashboard) press(key string) (tea.Model, tea.Cmd) {
	switch {
	case key == "ctrl+c" || key == "q" && !d.filtering:
		return d, tea.Quit
	case d.filtering:
		return d.typed(key), nil
	case d.help:
		d.help = false
	case d.story != nil:
		return d.read(key), nil
	default:
		return d.browse(key), nil
	}
	return d, nil
}

// typed handles a key while the user types the filter.
func (d dashboard) typed(key string) dashboard {
	switch {
	case key == "enter":
		d.filtering = false
	case key == "esc":
		d.filtering, d.filter = false, ""
	case key == "backspace":
		if runes := []rune(d.filter); len(runes) > 0 {
			d.filter = string(runes[:len(runes)-1])
		}
	case len([]rune(key)) == 1:
		d.filter += key
	}
	d.cursor = 0
	return d
}

// read scrolls or closes a story.
func (d dashboard) read(key string) dashboard {
	switch key {
	case "esc", "enter", "left", "h":
		d.story = nil
	default:
		d.scroll = d.step(key, d.scroll, len(d.wrapped()))
	}
	return d
}

// browse moves between rows and pages.
func (d dashboard) browse(key string) dashboard {
	switch key {
	case "?":
		d.help = true
	case "/":
		d.filtering = true
	case "esc":
		d.filter, d.cursor = "", 0
	case "tab", "right", "l":
		d.page, d.cursor = (d.page+1)%max(1, len(d.pages)), 0
	case "shift+tab", "left", "h":
		d.page, d.cursor = (d.page+len(d.pages)-1)%max(1, len(d.pages)), 0
	case "1", "2", "3", "4", "5", "6":
		if page := int(key[0] - '1'); page < len(d.pages) {
			d.page, d.cursor = page, 0
		}
	case "enter":
		d = d.explain()
	default:
		d.cursor = d.step(key, d.cursor, len(d.rows()))
	}
	return d
}

// step returns the new line number after key. at is the present one of count lines.
func (d dashboard) step(key string, at, count int) int {
	switch key {
	case "up", "k":
		at--
	case "down", "j":
		at++
	case "pgup":
		at -= d.room()
	case "pgdown", "space":
		at += d.room()
	case "home", "g":
		at = 0
	case "end", "G":
		at = count - 1
	}
	return max(0, min(at, count-1))
}

// rows returns the rows of the page that pass the filter.
func (d dashboard) rows() []dashRow {
	if len(d.pages) == 0 {
		return nil
	}
	all := d.pages[d.page].rows
	if d.filter == "" {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(r dashRow) bool {
		return !strings.Contains(strings.ToLower(strings.Join(r.cells, " ")), strings.ToLower(d.filter))
	})
}

// explain opens the story of the row at the cursor.
func (d dashboard) explain() dashboard {
	rows := d.rows()
	if d.cursor >= len(rows) {
		return d
	}
	row := rows[d.cursor]
	tell := map[string]func(explain.World, string) (explain.Story, error){
		storyService: explain.Service, storyGroup: explain.Group, storyNode: explain.Node,
	}[row.kind]
	d.scroll = 0
	story, err := tell(d.world, row.subject)
	if err != nil {
		d.story = []string{oneLine(err)}
		return d
	}
	var text strings.Builder
	if err := printTables(&text, story.Tables()); err != nil {
		d.story = []string{oneLine(err)}
		return d
	}
	d.story = strings.Split(fmt.Sprintf("explain %s %s\n\n%s", row.kind, plain(row.subject), strings.TrimRight(text.String(), "\n")), "\n")
	return d
}

// View implements tea.Model.
func (d dashboard) View() tea.View {
	v := tea.NewView(d.screen())
	v.AltScreen = true
	return v
}

// age returns the time of the reading.
func (d dashboard) age() string {
	if d.world.Now.IsZero() {
		return "no time"
	}
	return d.world.Now.UTC().Format(time.TimeOnly) + " UTC"
}
