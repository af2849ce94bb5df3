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
	"purelb.io/purelb/internal/testing/expect"
)

const runbook = "https://github.com/purelb/purelb/blob/main/docs/alerts.md#"

func TestAlertsFireWhenTheyShould(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatalf("%v: promtool is in Debian's package prometheus, which \"make deps\" installs", err)
	}
	rules, err := yaml.Marshal(map[string]any{"groups": ruleGroups(t)})
	expect.NoError(t, err)
	dir := t.TempDir()
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), rules, 0o600))
	expect.NoError(t, os.CopyFS(dir, os.DirFS("testdata/alerts")))
	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", filepath.Join(dir, "cases.yaml")).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

// alertCases returns, for each alert, whether there are cases in which it fires and does not fire.
func alertCases(t *testing.T) map[string]map[bool]bool {
	t.Helper()
	var cases struct {
		Tests []struct {
			Rules []struct {
				Name  string `json:"alertname"`
				Fires []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	expect.NoError(t, yaml.Unmarshal([]byte(apitest.Text(t, "charts/purelb/testdata/alerts/cases.yaml")), &cases))
	all := map[string]map[bool]bool{}
	for _, c := range cases.Tests {
		for _, r := range c.Rules {
			if all[r.Name] == nil {
				all[r.Name] = map[bool]bool{}
			}
			all[r.Name][len(r.Fires) > 0] = true
		}
	}
	return all
}

// TestEachAlertIsTestedAndExplained requires, for each alert, a case in which it fires, a case in
// which it does not, and a section of docs/alerts.md.
func TestEachAlertIsTestedAndExplained(t *testing.T) {
	var headings []string
	for _, found := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(apitest.Text(t, "docs/alerts.md"), -1) {
		headings = append(headings, found[1])
	}
	var names []string
	cases := alertCases(t)
	for _, r := range allRules(t) {
		names = append(names, r.Alert)
		if has := cases[r.Alert]; len(has) < 2 {
			t.Errorf("%s lacks a case in which it fires, or one in which it does not: %v", r.Alert, has)
		}
		delete(cases, r.Alert)
		if r.Annotations["runbook_url"] != runbook+strings.ToLower(r.Alert) {
			t.Errorf("%s sends people to %s", r.Alert, r.Annotations["runbook_url"])
		}
	}
	if len(cases) > 0 {
		t.Errorf("the chart has no alerts %v", cases)
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
	Alert, Expr string
	Annotations map[string]string
}

func allRules(t *testing.T) (rules []alertRule) {
	t.Helper()
	text, err := yaml.Marshal(ruleGroups(t))
	expect.NoError(t, err)
	var groups []struct{ Rules []alertRule }
	expect.NoError(t, yaml.Unmarshal(text, &groups))
	for _, g := range groups {
		rules = append(rules, g.Rules...)
	}
	return rules
}

// ruleGroups returns the groups of all PrometheusRules of the chart, in the format that Prometheus
// reads.
func ruleGroups(t *testing.T) (groups []any) {
	t.Helper()
	const values = `
Prometheus:
  allocator: {prometheusRules: {enabled: true}}
  lbnodeagent: {prometheusRules: {enabled: true}}
  k8gobgp: {prometheusRules: {enabled: true}}
`
	for _, o := range mustRender(t, values) {
		if o.GetKind() == "PrometheusRule" {
			of, _, err := unstructured.NestedSlice(o.Object, "spec", "groups")
			expect.NoError(t, err)
			groups = append(groups, of...)
		}
	}
	if len(groups) != 3 {
		t.Fatalf("%d groups of rules, want 3", len(groups))
	}
	return groups
}
