package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

// TestEveryRefusalIsInTheManual compares refusals.md with the reasons in the code: none is missing,
// and none is invented. The tests of the allocator provoke the messages, and compare them with the
// page.
func TestEveryRefusalIsInTheManual(t *testing.T) {
	manual := chapters(t, "docs/refusals.md")
	heading, row := regexp.MustCompile(`(?m)^### (\w+)$`), regexp.MustCompile("(?m)^\\| `(\\w+)` \\|")
	tests := []struct {
		chapter string
		entry   *regexp.Regexp
		reasons []string
	}{
		{"Services", heading, ipam.Reasons()},
		{"ServiceGroups", heading, constants(t, "../internal/config/problem.go", "Reason")},
		{"Metric", row, constants(t, "../internal/allocate/ipam/refusals.go", "metric")},
	}
	for _, tt := range tests {
		documented := matches(tt.entry, manual[tt.chapter])
		for _, reason := range without(tt.reasons, documented) {
			t.Errorf("refusals.md, %s: the reason %s is missing", tt.chapter, reason)
		}
		for _, reason := range without(documented, tt.reasons) {
			t.Errorf("refusals.md, %s: no code has the reason %s", tt.chapter, reason)
		}
		if len(slices.Compact(slices.Sorted(slices.Values(documented)))) < len(documented) {
			t.Errorf("refusals.md, %s: a reason is listed twice", tt.chapter)
		}
	}
}

// The list of all reasons is written by hand.
func TestReasonsListsEveryConstant(t *testing.T) {
	code := append(constants(t, "../internal/allocate/ipam/refusals.go", "Reason"), service.ReasonContested)
	if listed := ipam.Reasons(); !slices.Equal(slices.Sorted(slices.Values(listed)), slices.Sorted(slices.Values(code))) {
		t.Errorf("ipam.Reasons() lacks %v, and has %v without a constant", without(code, listed), without(listed, code))
	}
}

// TestTheMetricCountsWhatTheManualSays compares the metrics in the sections of refusals.md with
// those in the code.
func TestTheMetricCountsWhatTheManualSays(t *testing.T) {
	reasons := constants(t, "../internal/allocate/ipam/refusals.go", "metric")
	services := chapters(t, "docs/refusals.md")["Services"]
	var named []string
	for _, line := range matches(regexp.MustCompile(`(?s)Metric: (.*?)[.]\n`), services) {
		named = append(named, without(matches(regexp.MustCompile("`([a-z_]+)`"), line), named)...)
	}
	for _, reason := range without(reasons, named) {
		t.Errorf("no section of refusals.md has the metric reason %s", reason)
	}
	for _, reason := range without(named, reasons) {
		t.Errorf("refusals.md: no metric has the reason %s", reason)
	}
}

// chapters returns the chapters of a page, by their headings.
func chapters(t *testing.T, page string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, chapter := range strings.Split(apitest.Text(t, page), "\n## ")[1:] {
		heading, body, _ := strings.Cut(chapter, "\n")
		all[heading] = body
	}
	return all
}

// constants returns the values of the constants in a file whose names begin with prefix.
func constants(t *testing.T, file, prefix string) []string {
	t.Helper()
	source, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	expect.NoError(t, err)
	var values []string
	ast.Inspect(source, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
			value, err := strconv.Unquote(literal.Value)
			expect.NoError(t, err)
			values = append(values, value)
		}
		return true
	})
	if len(values) == 0 {
		t.Fatalf("%s has no constants %s...", file, prefix)
	}
	return values
}

func matches(what *regexp.Regexp, text string) []string {
	var all []string
	for _, m := range what.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// without returns the items of a that are not in b.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}
