package main

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"purelb.io/purelb/internal/explain"
)

// print writes a in the requested format, which isFormat has accepted.
func (o *options) print(a answer) error {
	form, template, _ := strings.Cut(o.output, "=")
	switch form {
	case "json":
		a = full(a)
		e := json.NewEncoder(o.out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(a)
	case "yaml":
		text, err := yaml.Marshal(full(a))
		if err != nil {
			return err
		}
		_, err = o.out.Write(text)
		return err
	case "jsonpath":
		return printPath(o.out, full(a), template)
	case "name":
		for _, name := range a.(named).Names() {
			fmt.Fprintln(o.out, name)
		}
		return nil
	case "short":
		if s, can := a.(interface{ Short() []explain.Table }); can {
			return printTables(o.out, s.Short())
		}
	case "wide":
		if w, can := a.(interface{ Wide() []explain.Table }); can {
			return printTables(o.out, w.Wide())
		}
	}
	return printTables(o.out, a.Tables())
}

// named is the answer of a command that lists objects. The names are TYPE/NAME, as explain takes them.
type named interface{ Names() []string }

// printPath writes what template, a JSONPath as kubectl takes it, selects of a.
func printPath(to io.Writer, a answer, template string) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	p, err := printers.NewJSONPathPrinter(template)
	if err != nil {
		return err
	}
	p.AllowMissingKeys(true)
	return p.PrintObj(&unstructured.Unstructured{Object: all}, to)
}

// full returns a with an empty list in place of each nil list, so that JSON and YAML show no null
// lists. Answers need not begin with empty lists.
func full(a answer) answer {
	copied := reflect.New(reflect.TypeOf(a)).Elem()
	copied.Set(reflect.ValueOf(a))
	fill(copied)
	return copied.Interface().(answer)
}

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fill(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for i := range v.Len() {
			fill(v.Index(i))
		}
	}
}

// printTables writes tables with a blank line between them.
func printTables(to io.Writer, tables []explain.Table) error {
	var text strings.Builder
	for i, t := range tables {
		if i > 0 {
			text.WriteByte('\n')
		}
		printTable(&text, t)
	}
	_, err := io.WriteString(to, text.String())
	return err
}

func printTable(to *strings.Builder, t explain.Table) {
	if t.Title != "" {
		fmt.Fprintln(to, t.Title)
	}
	if len(t.Head) > 0 {
		columns := &strings.Builder{}
		w := printers.GetNewTabWriter(columns)
		for _, row := range append([][]string{t.Head}, t.Rows...) {
			for i, cell := range row {
				row[i] = plain(cell)
			}
			fmt.Fprintln(w, strings.Join(row, "\t"))
		}
		_ = w.Flush() // A Builder has no errors.
		for line := range strings.Lines(columns.String()) {
			fmt.Fprintln(to, strings.TrimRight(line, " \n"))
		}
	}
	for _, line := range t.Lines {
		fmt.Fprintln(to, plain(line))
	}
}

// plain returns text without control characters. Users write parts of text into annotations. Those
// parts must not control the terminal or forge lines.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r):
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
