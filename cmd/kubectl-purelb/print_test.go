package main

import (
	"bytes"
	"strings"
	"testing"

	"purelb.io/purelb/internal/explain"
)

// The text of a Service must not contain control sequences for the terminal of an operator.
func TestAnnotationsDoNotSteerTheTerminal(t *testing.T) {
	w := with(t, recorded(t), `Services api: {metadata: {annotations: {purelb.io/allow-shared-ip: "edge\e]0;title\a\r\nforged\tline\u009b2J"}}}`)
	for name, a := range map[string]func() (answer, error){
		"services": func() (answer, error) { return explain.ServicesOf(w, explain.Filter{}) },
	} {
		said, err := a()
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := printTables(&out, said.Tables()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "edge") || strings.ContainsAny(out.String(), "\x1b\a\r\t\u009b") || strings.Contains(out.String(), "\nforged") {
			t.Errorf("%s prints %q", name, out.String())
		}
	}
}
