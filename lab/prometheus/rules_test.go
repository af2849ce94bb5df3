package prometheus

import (
	"strings"
	"testing"
)

func TestRulesRunFaster(t *testing.T) {
	given := []Group{{Name: "g", Rules: []Rule{
		{Alert: "A", Expr: "predict_linear(x[6h], 4 * 86400) < 0", For: "1h"},
		{Alert: "B", Expr: "increase(x[10m]) > 5"},
	}}}
	got, err := Faster(given, 20)
	if err != nil {
		t.Fatal(err)
	}
	if r := got[0].Rules[0]; r.Expr != "predict_linear(x[1080000ms], 4 * 4320) < 0" || r.For != "180000ms" {
		t.Errorf("got %+v", r)
	}
	if r := got[0].Rules[1]; r.Expr != "increase(x[30000ms]) > 5" || r.For != "" {
		t.Errorf("got %+v", r)
	}
	if given[0].Rules[0].For != "1h" {
		t.Error("Faster changed the rules that it got")
	}
	if _, err := Faster([]Group{{Rules: []Rule{{Alert: "C", Expr: "x", For: "soon"}}}}, 20); err == nil || !strings.Contains(err.Error(), `C: "soon" is not a duration`) {
		t.Errorf("the error of a wrong duration is %v", err)
	}
}

func TestChartHasRules(t *testing.T) {
	groups, err := RulesOf("../../charts/purelb/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, g := range groups {
		if len(g.Rules) == 0 || g.Rules[0].Alert == "" || g.Rules[0].Expr == "" {
			t.Errorf("the group %s has the rules %v, want ones with alert and expression", g.Name, g.Rules)
		}
		names = append(names, g.Name)
	}
	if got := strings.Join(names, " "); got != "purelb-allocator purelb-k8gobgp purelb-lbnodeagent" {
		t.Errorf("the groups are %s", got)
	}
}
