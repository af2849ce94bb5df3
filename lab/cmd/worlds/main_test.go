package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"purelb.io/purelb/lab/internal/topology"
)

// Without this test, a renamed test would count as failed only when the table is written.
func TestScenesAreTestsOfTheLab(t *testing.T) {
	files, err := filepath.Glob("../../e2e/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				tests[fn.Name.Name] = true
			}
		}
	}
	for _, s := range scenes {
		if !tests[s.test] {
			t.Errorf("there is no test %s", s.test)
		}
	}
}

func TestWorldsAreChosenByName(t *testing.T) {
	if all, err := choose(nil); err != nil || len(all) != len(topology.Worlds) {
		t.Errorf("without a name, the worlds are %v, %v; want all", all, err)
	}
	if one, err := choose([]string{"iptables"}); err != nil || len(one) != 1 || one[0].Name != "iptables" {
		t.Errorf("by the name iptables, the worlds are %v, %v", one, err)
	}
	if _, err := choose([]string{"moon"}); err == nil {
		t.Error("an unknown name is accepted")
	}
}

func TestOnlyPassedTestsPassInTheTable(t *testing.T) {
	passed, err := read(strings.NewReader(`{"Action":"run","Test":"A"}
{"Action":"output","Test":"A","Output":"text\n"}
{"Action":"pass","Test":"A"}
{"Action":"fail","Test":"B"}
{"Action":"fail"}
`), io.Discard)
	if err != nil || len(passed) != 1 || !passed["A"] {
		t.Errorf("the passed tests are %v, %v", passed, err)
	}
	all := results{}
	w, _ := topology.FindWorld("iptables")
	all.set(w, map[string]bool{scenes[0].test: true})
	text := table(all)
	if got := strings.Count(text, "| passes |"); got != 1 {
		t.Errorf("%d cells of the table pass, want 1:\n%s", got, text)
	}
	others := slices.DeleteFunc(slices.Clone(scenes[1:]), func(s scene) bool { return !s.in(w) })
	if fails, other := strings.Count(text, "| **fails** "), len(others); fails != other {
		t.Errorf("%d cells of the table fail, want %d:\n%s", fails, other, text)
	}
}

func TestARunOfOneWorldKeepsOtherResults(t *testing.T) {
	all := results{}
	for _, w := range topology.Worlds {
		all.set(w, map[string]bool{scenes[0].test: true})
	}
	again := previous("Text\n" + begin + table(all) + end)
	if got, want := table(again), table(all); got != want {
		t.Errorf("the table was read as\n%s\nwant\n%s", got, want)
	}
	again.set(topology.Worlds[1], nil)
	others := slices.DeleteFunc(slices.Clone(topology.Worlds[2:]), func(w topology.World) bool { return !scenes[0].in(w) })
	if got := strings.Count(table(again), "| passes "); got != 1+len(others) {
		t.Errorf("after one world failed, %d worlds pass, want all others:\n%s", got, table(again))
	}
}
