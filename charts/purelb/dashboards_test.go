package chart

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/testing/apitest"
)

// dashboard has the fields of a Grafana dashboard that the tests read.
type dashboard struct {
	UID, Title, Description string
	SchemaVersion           int
	Panels                  []panel
	Templating              struct{ List []struct{ Name, Type string } }
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               source
	FieldConfig              struct{ Defaults struct{ Unit string } }
	GridPos                  struct{ X, Y, W, H int }
	Targets                  []struct {
		RefID, Expr string
		Datasource  source
	}
}

type source struct{ Type, UID string }

// dashboards returns the dashboards that the chart installs, by the names of their files.
func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	all := map[string]dashboard{}
	for _, o := range mustRender(t, "Prometheus: {dashboards: {enabled: true}}") {
		if o.GetKind() != "ConfigMap" {
			continue
		}
		for file, text := range apitest.As[corev1.ConfigMap](t, o).Data {
			var d dashboard
			if err := json.Unmarshal([]byte(text), &d); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			all[file] = d
		}
	}
	if len(all) != 6 {
		t.Fatalf("%d dashboards, want 6", len(all))
	}
	return all
}

func TestDashboardsAreSound(t *testing.T) {
	own := source{"prometheus", "${datasource}"}
	uids := map[string]string{}
	for file, d := range dashboards(t) {
		if d.UID == "" || uids[d.UID] != "" || d.Title == "" || d.Description == "" || d.SchemaVersion < 36 {
			t.Errorf("%s: uid %q (also of %q), title %q, description %q, schema version %d", file, d.UID, uids[d.UID], d.Title, d.Description, d.SchemaVersion)
		}
		uids[d.UID] = file
		if v := d.Templating.List; len(v) != 1 || v[0].Name != "datasource" || v[0].Type != "datasource" {
			t.Errorf("%s has the variables %v, want datasource alone", file, v)
		}
		ids, titles := map[int]bool{}, map[string]bool{}
		for i, p := range d.Panels {
			if p.ID == 0 || ids[p.ID] || titles[p.Title] || p.Title == "" || p.Description == "" || p.Datasource != own || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
				t.Errorf("%s: panel %d %q: id or title twice, or no title, description, unit, query, or another data source than the variable: %+v", file, p.ID, p.Title, p)
			}
			ids[p.ID], titles[p.Title] = true, true
			refs := map[string]bool{}
			for _, q := range p.Targets {
				if q.RefID == "" || refs[q.RefID] || q.Expr == "" || q.Datasource != own {
					t.Errorf("%s: %q has the query %+v", file, p.Title, q)
				}
				refs[q.RefID] = true
			}
			for _, other := range d.Panels[:i] {
				a, b := p.GridPos, other.GridPos
				if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H || a.X+a.W > 24 {
					t.Errorf("%s: %q overlaps %q or the edge", file, p.Title, other.Title)
				}
			}
		}
	}
}

// A panel with a metric that no program exports is empty.
func TestDashboardsUseMetricsOfTheManual(t *testing.T) {
	for file, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				usesMetricsOfTheManual(t, file+": "+p.Title, q.Expr)
			}
		}
	}
}

// usesMetricsOfTheManual looks up the metrics of a query in the page that is generated from the
// programs.
func usesMetricsOfTheManual(t *testing.T, what, query string) {
	t.Helper()
	manual := apitest.Text(t, "docs/metrics.md")
	for _, name := range regexp.MustCompile(`\b(purelb|k8gobgp)_[a-z0-9_]+`).FindAllString(query, -1) {
		if !regexp.MustCompile("`" + strings.TrimSuffix(name, "_bucket") + "[`{]").MatchString(manual) {
			t.Errorf("%s uses %s, which docs/metrics.md does not list", what, name)
		}
	}
}
