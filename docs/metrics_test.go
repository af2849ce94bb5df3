package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"purelb.io/purelb/internal/bgp/speaker"
)

// TestTheManualListsEveryMetric compares the chapter Metrics of reference.md with the code: none is
// missing, and none is invented.
func TestTheManualListsEveryMetric(t *testing.T) {
	code, manual := metricsOfTheCode(t), metricsOfTheManual(t)
	for _, name := range without(code, manual) {
		t.Errorf("reference.md, Metrics: %s is missing", name)
	}
	for _, name := range without(manual, code) {
		t.Errorf("reference.md, Metrics: no program has %s", name)
	}
	if len(code) < 100 {
		t.Errorf("the code has %d metrics, want more: does the test still find them?", len(code))
	}
}

// rows matches the first cells of the tables of metrics, and the cells after them.
var rows = regexp.MustCompile("(?m)^\\| (`.*?`) \\| (.*) \\|$")

// named matches the name of a metric at the beginning of a word in code. Labels may follow.
var named = regexp.MustCompile("`([a-z][a-z0-9_]*)")

// metricsOfTheManual returns the names in the first cells of the tables, and the name of the metric that all
// programs have. The names in the table of k8gobgp lack their common beginning.
func metricsOfTheManual(t *testing.T) (names []string) {
	t.Helper()
	chapter := chapters(t, "docs/reference.md")["Metrics"]
	names = matches(regexp.MustCompile("All programs have `([a-z_]+)"), chapter)
	for _, cell := range matches(rows, chapter) {
		for _, name := range matches(named, cell) {
			names = append(names, full(name))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func full(name string) string {
	if strings.HasPrefix(name, "purelb_") {
		return name
	}
	return "k8gobgp_" + name
}

// metricsOfTheCode returns the names of the metrics in the packages that use the library of Prometheus.
func metricsOfTheCode(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir("../internal", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err == nil && slices.ContainsFunc(file.Imports, func(s *ast.ImportSpec) bool { return strings.Contains(s.Path.Value, "prometheus/client_golang") }) {
			names = append(names, metricsOf(file)...)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// metricsOf returns the names of metrics in a file: each is written before a help text, which is a
// sentence. A file can make all of its names from a common beginning and a variable.
func metricsOf(file *ast.File) (names []string) {
	var beginning string
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if text := literal(n.X); strings.HasSuffix(text, "_") {
				beginning = text
			}
		case *ast.CallExpr:
			names = append(names, beforeHelp(n.Args)...)
		case *ast.CompositeLit:
			names = append(names, beforeHelp(n.Elts)...)
		}
		return true
	})
	for i, name := range names {
		if !strings.HasPrefix(name, "purelb_") {
			names[i] = beginning + name
		}
	}
	return names
}

// beforeHelp returns the names in a list of arguments or fields that are followed by a sentence.
func beforeHelp(list []ast.Expr) (names []string) {
	for i, e := range list[:max(0, len(list)-1)] {
		name, help := literal(e), literal(list[i+1])
		if regexp.MustCompile(`^[a-z][a-z0-9_]*$`).MatchString(name) && strings.HasSuffix(help, ".") {
			names = append(names, name)
		}
	}
	return names
}

// literal returns the value of a string, which may be that of a named field, and otherwise "".
func literal(e ast.Expr) string {
	if field, ok := e.(*ast.KeyValueExpr); ok {
		e = field.Value
	}
	text, ok := e.(*ast.BasicLit)
	if !ok || text.Kind != token.STRING {
		return ""
	}
	value, _ := strconv.Unquote(text.Value)
	return value
}

// TestTheManualSaysWhichTotalsAreGauges: the name of a counter ends with _total. Some names of the
// speaker's gauges end so too. Dashboards that exist use them.
func TestTheManualSaysWhichTotalsAreGauges(t *testing.T) {
	var manual, gauges []string
	for _, row := range rows.FindAllStringSubmatch(chapters(t, "docs/reference.md")["Metrics"], -1) {
		for _, name := range matches(named, row[1]) {
			if strings.Contains(row[2], "gauges, in spite of their names") && strings.HasSuffix(name, "_total") {
				manual = append(manual, full(name))
			}
		}
	}
	kinds := kinds{}
	speaker.NewMetrics(kinds, true, 1)
	for name, counts := range kinds {
		total := strings.HasSuffix(name, "_total")
		if counts && !total {
			t.Errorf("%s is a counter, and its name does not end with _total", name)
		}
		if !counts && total {
			gauges = append(gauges, name)
		}
	}
	slices.Sort(manual)
	slices.Sort(gauges)
	if !slices.Equal(gauges, manual) {
		t.Errorf("the gauges with the names of counters are\n%v, and reference.md says\n%v", gauges, manual)
	}
}

// kinds is a registry that notes, by the names of metrics, which are counters.
type kinds map[string]bool

func (k kinds) Register(c prometheus.Collector) error {
	about := make(chan *prometheus.Desc, 1)
	c.Describe(about)
	name := matches(regexp.MustCompile(`fqName: "(\w+)"`), (<-about).String())[0]
	_, gauge := c.(prometheus.Gauge) // a gauge has the methods of a counter too
	_, counter := c.(prometheus.Counter)
	_, counters := c.(*prometheus.CounterVec)
	k[name] = counter && !gauge || counters
	return nil
}

func (k kinds) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		_ = k.Register(c)
	}
}

func (kinds) Unregister(prometheus.Collector) bool { return false }
