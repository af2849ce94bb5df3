package scenes_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	all := scenes.Promises()
	for n := 1; n <= scenes.Parts; n++ {
		number, part := scenes.Part(strconv.Itoa(n))
		if number != n {
			t.Errorf("Part(%d) is part %d", n, number)
		}
		all = append(all, part...)
	}
	byName := func(a, b scenes.Scene) int { return strings.Compare(a.Test, b.Test) }
	if diff := cmp.Diff(slices.SortedFunc(slices.Values(scenes.All), byName), slices.SortedFunc(slices.Values(all), byName)); diff != "" {
		t.Errorf("the parts and the promises together (-all scenes +these):\n%s", diff)
	}
}

func TestCommitsChooseEveryPart(t *testing.T) {
	chosen := map[int]bool{}
	for commit := range 1000 {
		number, part := scenes.Part(fmt.Sprintf("%040x", commit))
		if len(part) == 0 {
			t.Fatalf("part %d has no scenes", number)
		}
		chosen[number] = true
	}
	if len(chosen) != scenes.Parts {
		t.Errorf("a thousand commits choose the parts %v, want %d parts", chosen, scenes.Parts)
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
