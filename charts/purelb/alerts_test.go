package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"purelb.io/purelb/internal/testing/apitest"
)

// an alertCase is an alert with series for which it fires, or must not fire. Each value of a series
// is 15 s after the previous one. In promtool's notation, NxM is N, repeated M more times.
type alertCase struct {
	alert  string
	series map[string]string
	at     string
	// labels and summary are those of the firing alert. Without a summary, the alert must not fire.
	labels  map[string]string
	summary string
}

const runbook = "https://github.com/purelb/purelb/blob/main/docs/alerts.md#"

// promtool returns the case in the format of "promtool test rules".
func (c alertCase) promtool(severities map[string]string) map[string]any {
	var series []any
	for name, values := range c.series {
		series = append(series, map[string]any{"series": name, "values": values})
	}
	fires := []any{}
	if c.summary != "" {
		labels := map[string]any{"severity": severities[c.alert]}
		for k, v := range c.labels {
			labels[k] = v
		}
		fires = append(fires, map[string]any{
			"exp_labels":      labels,
			"exp_annotations": map[string]any{"summary": c.summary, "runbook_url": runbook + strings.ToLower(c.alert)},
		})
	}
	return map[string]any{
		"interval": "15s", "input_series": series,
		"alert_rule_test": []any{map[string]any{"alertname": c.alert, "eval_time": c.at, "exp_alerts": fires}},
	}
}

func TestAlertsFireWhenTheyShould(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatalf("%v: promtool is in Debian's package prometheus, which \"make deps\" installs", err)
	}
	severities := map[string]string{}
	for _, r := range allRules(t) {
		severities[r.Alert] = r.Labels["severity"]
	}
	var tests []any
	for _, c := range alertCases {
		if severities[c.alert] == "" {
			t.Errorf("the chart has no alert %s", c.alert)
		}
		tests = append(tests, c.promtool(severities))
	}
	dir := t.TempDir()
	write := func(name string, content any) string {
		text, err := yaml.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("rules.yaml", map[string]any{"groups": ruleGroups(t)})
	cases := write("cases.yaml", map[string]any{"rule_files": []string{"rules.yaml"}, "evaluation_interval": "15s", "tests": tests})
	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", cases).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

// TestEachAlertIsTestedAndExplained requires, for each alert, a case in which it fires, a case in
// which it does not, and a section of docs/alerts.md.
func TestEachAlertIsTestedAndExplained(t *testing.T) {
	var headings []string
	for _, found := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(apitest.Text(t, "docs/alerts.md"), -1) {
		headings = append(headings, found[1])
	}
	var names []string
	for _, r := range allRules(t) {
		names = append(names, r.Alert)
		has := func(fires bool) bool {
			return slices.ContainsFunc(alertCases, func(c alertCase) bool { return c.alert == r.Alert && (c.summary != "") == fires })
		}
		if !has(true) || !has(false) {
			t.Errorf("%s has a case in which it fires: %t, and in which it does not: %t", r.Alert, has(true), has(false))
		}
		if s := r.Labels["severity"]; s != "warning" && s != "critical" {
			t.Errorf("%s has the severity %q", r.Alert, s)
		}
		if r.Annotations["runbook_url"] != runbook+strings.ToLower(r.Alert) {
			t.Errorf("%s sends people to %s", r.Alert, r.Annotations["runbook_url"])
		}
	}
	slices.Sort(names)
	slices.Sort(headings)
	if !slices.Equal(names, headings) {
		t.Errorf("the chart has the alerts %v, and docs/alerts.md explains %v", names, headings)
	}
	if len(slices.Compact(names)) != len(allRules(t)) {
		t.Errorf("two alerts have one name: %v", names)
	}
}

// An alert on a metric that no program exports never fires.
func TestAlertsUseMetricsOfTheManual(t *testing.T) {
	for _, r := range allRules(t) {
		usesMetricsOfTheManual(t, r.Alert, r.Expr)
	}
}

type alertRule struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

func allRules(t *testing.T) []alertRule {
	t.Helper()
	var rules []alertRule
	for _, group := range ruleGroups(t) {
		text, err := yaml.Marshal(group)
		if err != nil {
			t.Fatal(err)
		}
		var g struct{ Rules []alertRule }
		if err := yaml.Unmarshal(text, &g); err != nil {
			t.Fatal(err)
		}
		rules = append(rules, g.Rules...)
	}
	return rules
}

// ruleGroups returns the groups of all PrometheusRules of the chart, in the format that Prometheus
// reads.
func ruleGroups(t *testing.T) []any {
	t.Helper()
	var values []string
	for _, component := range []string{"allocator", "lbnodeagent", "k8gobgp"} {
		values = append(values, component+": {prometheusRules: {enabled: true}}")
	}
	var groups []any
	for _, o := range mustRender(t, "Prometheus: {"+strings.Join(values, ", ")+"}") {
		if o.GetKind() == "PrometheusRule" {
			of, _, err := unstructured.NestedSlice(o.Object, "spec", "groups")
			if err != nil {
				t.Fatal(err)
			}
			groups = append(groups, of...)
		}
	}
	if len(groups) != 3 {
		t.Fatalf("%d groups of rules, want 3", len(groups))
	}
	return groups
}
