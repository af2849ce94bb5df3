package explain

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Table is a part of an answer: a title, rows under a head, and lines of text. Each may be
// missing.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string
	Lines []string
}

// TableOf returns a table of rows, which are structs. A field with a tag "col" is a column of that name.
func TableOf[T any](title string, rows []T) Table {
	t := Table{Title: title}
	of := reflect.TypeFor[T]()
	for i := range of.NumField() {
		if name := of.Field(i).Tag.Get("col"); name != "" {
			t.Head = append(t.Head, name)
		}
	}
	for _, row := range rows {
		var cells []string
		for i := range of.NumField() {
			if of.Field(i).Tag.Get("col") != "" {
				cells = append(cells, cell(reflect.ValueOf(row).Field(i)))
			}
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// cell prints a value. A nil pointer is an unknown value.
func cell(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return "unknown"
		}
		if number, is := v.Interface().(fmt.Stringer); is {
			return number.String()
		}
		return cell(v.Elem())
	case reflect.Bool:
		return yes(v.Bool())
	case reflect.Float64:
		return fmt.Sprintf("%.1f", v.Float())
	case reflect.Slice:
		var texts []string
		for i := range v.Len() {
			texts = append(texts, v.Index(i).String())
		}
		return orDash(strings.Join(texts, ","))
	}
	return orDash(fmt.Sprint(v))
}

// orDash returns text, or a dash for "".
func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// unreadTable lists the unknown kinds.
func unreadTable(unread []Unread) []Table {
	var lines []string
	for _, u := range unread {
		lines = append(lines, u.String())
	}
	return linesTable("Unknown", lines)
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// atMost returns the first lines, and how many more there are in the words of more.
func atMost(most int, lines []string, more string) []string {
	if left := len(lines) - most; left > 0 {
		return append(slices.Clone(lines[:most]), fmt.Sprintf(more, left))
	}
	return lines
}

func problemsTable(problems []string) []Table { return linesTable("Problems", problems) }

// linesTable returns a table of lines, or none without lines.
func linesTable(title string, lines []string) []Table {
	if len(lines) == 0 {
		return nil
	}
	return []Table{{Title: title, Lines: lines}}
}
