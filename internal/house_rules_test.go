package internal

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"purelb.io/purelb/internal/testing/expect"
)

const module = "purelb.io/purelb/"

// source is what the plan of the house needs to know of a package: its files
// without the tests.
type source struct {
	path       string
	documented bool
	imports    []string
	// restless are the places where it asks for the time or starts a
	// goroutine.
	restless []string
}

// complaints says what of p does not agree with the plan.
func complaints(p source) []string {
	i := slices.IndexFunc(house, func(r room) bool { return r.path == p.path })
	if i < 0 {
		return []string{fmt.Sprintf("%s has no place in the house: add it to the table in internal/house_test.go, in the lowest layer that fits", p.path)}
	}
	r := house[i]
	var list []string
	if !p.documented {
		list = append(list, fmt.Sprintf("%s has no package comment: say in its main file what it knows and what it does not", p.path))
	}
	for _, path := range p.imports {
		if complaint := r.judge(path); complaint != "" {
			list = append(list, complaint)
		}
	}
	if r.layer == words || r.layer == decisions {
		for _, place := range p.restless {
			list = append(list, fmt.Sprintf("%s: %s lies in %s, where time is an argument and nothing runs by itself; do that in a loop (internal/allocate, internal/announce/agent) and pass the result in", place, p.path, r.layer))
		}
	}
	return list
}

// judge says why r must not import path, or "" when it may.
func (r room) judge(path string) string {
	if local, ok := strings.CutPrefix(path, module); ok {
		return r.judgeLocal(local)
	}
	d := doorTo(path)
	switch {
	case d == nil && isStandard(path), d != nil && slices.Contains(strings.Fields(r.doors), d.name):
		return ""
	case d == nil:
		return fmt.Sprintf("%s imports %s, to which no door leads: add one in internal/house_test.go, and say there who may use it and why", r.path, path)
	}
	return fmt.Sprintf("%s (%s) imports %s: %s", r.path, r.layer, path, d.instead)
}

func (r room) judgeLocal(path string) string {
	if slices.Contains(strings.Fields(r.imports), path) {
		return ""
	}
	i := slices.IndexFunc(house, func(other room) bool { return other.path == path })
	if i >= 0 && house[i].layer == testHelp {
		return fmt.Sprintf("%s imports %s outside of its tests: it is for tests only", r.path, path)
	}
	return fmt.Sprintf("%s (%s) imports %s, which its row of the table does not list: move the code to the package that may know both, or, when %[3]s lies below, add it to the row in internal/house_test.go", r.path, r.layer, path)
}

// doorTo returns the door that an import goes through. The words of the
// network, net/netip, are no way to the network.
func doorTo(path string) *door {
	var found *door
	longest := -1
	for i, d := range doors {
		for _, prefix := range strings.Fields(d.imports) {
			if (path == prefix || strings.HasPrefix(path, prefix+"/")) && len(prefix) > longest && path != "net/netip" {
				found, longest = &doors[i], len(prefix)
			}
		}
	}
	return found
}

func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// readModule reads the packages of the module at root, without their tests
// and without the modules inside it.
func readModule(root string) ([]source, error) {
	var packages []source
	err := filepath.WalkDir(root, func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if dir != root && (isModule(dir) || strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			return err
		}
		p, err := readPackage(dir, filepath.ToSlash(rel))
		if p != nil {
			packages = append(packages, *p)
		}
		return err
	})
	return packages, err
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// readPackage reads the package in dir, or returns nil when there is none.
func readPackage(dir, path string) (*source, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var p *source
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if p == nil {
			p = &source{path: path}
		}
		if err := p.readFile(name); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *source) readFile(name string) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	p.documented = p.documented || file.Doc != nil
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		if !slices.Contains(p.imports, path) {
			p.imports = append(p.imports, path)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if what := restless(n); what != "" {
			p.restless = append(p.restless, fmt.Sprintf("%s %s", files.Position(n.Pos()), what))
		}
		return true
	})
	return nil
}

// clock is what package time does beyond arithmetic, and metav1.Now.
var clock = strings.Fields("time.Now time.Since time.Until time.Sleep time.After time.AfterFunc time.Tick time.NewTimer time.NewTicker metav1.Now metav1.NowMicro")

// restless says how n asks for the time or starts something, or "".
func restless(n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "starts a goroutine"
	case *ast.SelectorExpr:
		if pkg, ok := n.X.(*ast.Ident); ok && slices.Contains(clock, pkg.Name+"."+n.Sel.Name) {
			return "uses " + pkg.Name + "." + n.Sel.Name
		}
	}
	return ""
}

func TestTheRulesBite(t *testing.T) {
	pure := room{decisions, "internal/announce", "internal/addr", "types"}
	for _, tt := range []struct{ name, imports, want string }{
		{"the standard library is free", "net/netip", ""},
		{"what the row lists is free", module + "internal/addr", ""},
		{"a door that the row names is open", "k8s.io/api/core/v1", ""},
		{"the kernel is not", "github.com/vishvananda/netlink/nl", "only internal/announce/linux"},
		{"the API server is not", "k8s.io/client-go/kubernetes", "only the loops"},
		{"logs and locks are not", "log/slog", "do no I/O"},
		{"the longest way counts", "net/http", "HTTP is served by"},
		{"a package above is not", module + "internal/announce/agent", "does not list"},
		{"test help is for tests", module + "internal/testing/apitest", "tests only"},
		{"a stranger needs a door", "example.org/left-pad", "no door leads"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := pure.judge(tt.imports)
			if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("judge(%q) = %q, want it to contain %q", tt.imports, got, tt.want)
			}
		})
	}
}

func TestADecisionNeitherAsksForTheTimeNorStartsAnything(t *testing.T) {
	dir := t.TempDir()
	code := "package announce\n\nimport \"time\"\n\nfunc f() {\n\tgo f()\n\t_ = time.Now().Add(time.Second)\n}\n"
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "a.go"), []byte(code), 0o600))
	p, err := readPackage(dir, "internal/announce")
	expect.NoError(t, err)
	got := strings.Join(complaints(*p), "\n")
	for _, want := range []string{"no package comment", "a.go:6:2 starts a goroutine", "a.go:7:6 uses time.Now"} {
		if !strings.Contains(got, want) {
			t.Errorf("complaints are\n%s\nwithout %q", got, want)
		}
	}
}
