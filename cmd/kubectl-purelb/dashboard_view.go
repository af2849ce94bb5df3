package main

import (
	"fmt"
	"strings"
)

// The escape sequences of the dashboard. Its text is complete without them.
const (
	styleBold    = "\x1b[1m"
	styleReverse = "\x1b[7m"
	styleRed     = "\x1b[31m"
	styleEnd     = "\x1b[m"
)

func (d dashboard) style(style, text string) string {
	if !d.color || text == "" {
		return text
	}
	return style + text + styleEnd
}

// The lines above the body are the title, the tabs and the head of the columns. Two are below it.
const aroundBody = 5

// room returns the number of lines of the body.
func (d dashboard) room() int { return max(1, d.height-aroundBody) }

// screen returns the whole screen, which has d.height lines.
func (d dashboard) screen() string {
	if d.width == 0 || d.height == 0 {
		return ""
	}
	lines := []string{d.title(), d.tabs()}
	switch {
	case d.help:
		lines = append(lines, "")
		lines = append(lines, helpLines...)
	case d.story != nil:
		lines = append(lines, "")
		all := d.wrapped()
		lines = append(lines, all[min(d.scroll, len(all)-1):]...)
	case !d.known:
		lines = append(lines, "", "reading the cluster")
	default:
		lines = append(lines, d.table()...)
	}
	body := max(1, d.height-2)
	lines = append(lines, make([]string, body)...)[:body]
	lines = append(lines, d.style(styleRed, cut(d.note(), d.width)), cut(d.keys(), d.width))
	return strings.Join(lines, "\n")
}

func (d dashboard) title() string {
	text := "PureLB"
	if d.namespace != installNamespace {
		text += " in " + d.namespace
	}
	if d.known {
		text += ": " + d.status.Overall
		if c := d.status.Services.Summary; c != nil {
			text += fmt.Sprintf(", %d of %d Services OK, %d addresses", c.OK, c.Total, c.IPs)
		}
		text += ", at " + d.age()
	}
	return d.style(styleBold, cut(text, d.width))
}

// tabs returns the names of the pages. The current page is in brackets.
func (d dashboard) tabs() string {
	var parts []string
	for i, p := range d.pages {
		name := fmt.Sprintf("%d %s", i+1, p.name)
		if p.text == "" {
			name += fmt.Sprintf(" %d", len(p.rows))
		}
		if i == d.page {
			name = "[" + name + "]"
		}
		parts = append(parts, name)
	}
	return cut(strings.Join(parts, "  "), d.width)
}

// table returns the visible lines of the page. They include the row of the cursor.
func (d dashboard) table() []string {
	p, rows := d.pages[d.page], d.rows()
	if p.text != "" {
		return append([]string{""}, wrap(p.text, d.width)...)
	}
	from := max(0, min(d.cursor-d.room()/2, len(rows)-d.room()))
	shown := rows[from:min(len(rows), from+d.room())]
	head, texts := lay(p, shown, d.width-2)
	lines := []string{d.style(styleBold, "  "+head)}
	for i, text := range texts {
		switch {
		case from+i == d.cursor && shown[i].problem:
			text = d.style(styleReverse, ">!"+text)
		case from+i == d.cursor:
			text = d.style(styleReverse, "> "+text)
		case shown[i].problem:
			text = d.style(styleRed, "! "+text)
		default:
			text = "  " + text
		}
		lines = append(lines, text)
	}
	if len(rows) == 0 {
		lines = append(lines, "", "nothing here matches "+plain(d.filter))
	}
	return lines
}

// wrapped returns the story, wrapped to the width of the screen.
func (d dashboard) wrapped() []string {
	var all []string
	for _, line := range d.story {
		all = append(all, wrap(line, d.width)...)
	}
	return all
}

// note returns what is stale, otherwise what is unknown, otherwise the first warning.
func (d dashboard) note() string {
	switch {
	case d.stale != "":
		return "STALE: " + plain(d.stale)
	case len(d.status.Unread) > 0:
		return "UNKNOWN: " + plain(d.status.Unread[0].String())
	case len(d.status.Warnings) > 0:
		return fmt.Sprintf("%d warnings: %s", len(d.status.Warnings), plain(d.status.Warnings[0]))
	}
	return ""
}

func (d dashboard) keys() string {
	switch {
	case d.filtering:
		return "filter: " + plain(d.filter) + "_  (enter: keep, esc: drop)"
	case d.story != nil:
		return "up/down: scroll  esc: back  q: quit"
	case d.filter != "":
		return "filter: " + plain(d.filter) + "  (esc: drop)  enter: explain  ?: help  q: quit"
	}
	return "tab, 1-6: page  up/down: row  enter: explain  /: filter  ?: help  q: quit"
}

var helpLines = []string{
	"tab, shift+tab, left, right, 1 to 6   another page",
	"up, down, page up, page down, g, G    another row",
	"enter                                 explain the row; esc goes back",
	"/                                     show only rows with a text; esc drops it",
	"q, ctrl+c                             quit",
	"",
	"> is the chosen row, and ! one with a problem. The line above the keys says",
	"what is stale or unknown, or the first warning. Moves are those since the",
	"dashboard began.",
}

// wrap breaks text at blanks into lines of width.
func wrap(text string, width int) []string {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	var lines []string
	line := indent
	for _, word := range strings.Fields(text) {
		if len([]rune(line))+1+len([]rune(word)) > width && strings.TrimSpace(line) != "" {
			lines, line = append(lines, line), indent
		}
		if strings.TrimSpace(line) != "" {
			line += " "
		}
		line += word
	}
	lines = append(lines, line)
	for i := range lines {
		lines[i] = cut(lines[i], width)
	}
	return lines
}
