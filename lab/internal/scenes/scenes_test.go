package scenes_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"purelb.io/purelb/lab/internal/scenes"
)

// A test of lab/e2e that the table lacks would never run.
func TestTheTableListsEveryScene(t *testing.T) {
	files, err := filepath.Glob("../../e2e/*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in lab/e2e: %v", err)
	}
	tests := map[string]bool{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Comments) > 0 && strings.HasPrefix(f.Comments[0].List[0].Text, "//go:build") {
			continue // has a target of its own in the Makefile
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Test") && fn.Name.Name != "TestMain" {
				tests[fn.Name.Name] = true
			}
		}
	}
	for _, s := range scenes.All {
		if !tests[s.Test] {
			t.Errorf("the table lists %s, which is no test of lab/e2e, or lists it twice", s.Test)
		}
		delete(tests, s.Test)
	}
	for name := range tests {
		t.Errorf("lab/internal/scenes/table.go lacks %s", name)
	}
}

func TestPartsCoverWhatPromisesLeaveOut(t *testing.T) {
	var all []scenes.Scene
	seen := map[int]bool{}
	for key := 0; len(seen) < scenes.Parts; key++ {
		number, part := scenes.Part(strconv.Itoa(key))
		if number < 1 || number > scenes.Parts {
			t.Fatalf("part %d of %d", number, scenes.Parts)
		}
		if !seen[number] {
			all = append(all, part...)
		}
		seen[number] = true
	}
	all = append(all, scenes.Promises()...)
	if len(all) != len(scenes.All) {
		t.Errorf("the parts and the promises have %d scenes, want %d", len(all), len(scenes.All))
	}
	for _, s := range scenes.All {
		if !slices.Contains(all, s) {
			t.Errorf("%s is in no part", s.Test)
		}
	}
}

func TestNamedScenes(t *testing.T) {
	got, err := scenes.Named([]string{scenes.All[3].Test})
	if err != nil || len(got) != 1 || got[0] != scenes.All[3] {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := scenes.Named([]string{"TestNothing"}); err == nil {
		t.Error("a scene that does not exist is no error")
	}
}
