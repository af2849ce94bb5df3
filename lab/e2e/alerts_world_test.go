//go:build alerts

// These tests take seven minutes on an idle machine, and have their own target: make e2e-alerts.
package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/kube"
	"purelb.io/purelb/lab/product"
	"purelb.io/purelb/lab/prometheus"
)

// quickly is the divisor of all times of the alerts. With 20, ten minutes become half a minute.
// ALERTS_FACTOR sets another divisor.
const quickly = 20

// scrapes is the interval of Prometheus in the tests.
const scrapes = 2 * time.Second

// calm is the time in which no alert may fire in a healthy cluster.
const calm = 20 * time.Second

// alarms are the alerts of the chart in a Prometheus that scrapes the lab.
type alarms struct {
	*world
	prometheus *prometheus.Prometheus
	factor     int
	names      []string

	mu     sync.Mutex
	armed  bool            // Prometheus has read all programs
	faults []alertFault    // in the order of their start
	active map[string]bool // alerts that fire or are about to
	fired  map[string]time.Duration
	early  map[string]bool // alerts that fired before their fault began
}

// alertFault is a fault and the alerts that it must cause.
type alertFault struct {
	what   string
	alerts []string
	began  time.Time
}

// alarms starts Prometheus with the rules of the chart on the machine of the client.
func (w *world) alarms() *alarms {
	w.t.Helper()
	factor, err := strconv.Atoi(cmp.Or(os.Getenv("ALERTS_FACTOR"), strconv.Itoa(quickly)))
	if err != nil || factor < 1 {
		w.t.Fatalf("ALERTS_FACTOR=%s is not a number such as 20", os.Getenv("ALERTS_FACTOR"))
	}
	groups, err := prometheus.RulesOf(filepath.Join(lab.tree.Root, "charts/purelb/values.yaml"))
	if err != nil {
		w.t.Fatal(err)
	}
	a := &alarms{world: w, factor: factor, active: map[string]bool{}, fired: map[string]time.Duration{}, early: map[string]bool{}}
	for _, g := range groups {
		for _, r := range g.Rules {
			a.names = append(a.names, r.Alert)
		}
	}
	slices.Sort(a.names)
	if groups, err = prometheus.Faster(groups, factor); err != nil {
		w.t.Fatal(err)
	}
	a.prometheus, err = prometheus.Start(w.ctx, lab.Cluster, cluster.Client, w.t.TempDir(), scrapes, groups)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	var watching sync.WaitGroup
	watching.Go(func() { a.watch(ctx) })
	w.t.Cleanup(func() {
		cancel()
		watching.Wait()
		if err := a.prometheus.Stop(); err != nil {
			w.t.Error(err)
		}
	})
	return a
}

// watch updates the targets of Prometheus and reads the firing alerts until ctx is done.
func (a *alarms) watch(ctx context.Context) {
	for ctx.Err() == nil {
		if targets, err := a.targets(ctx); err == nil && len(targets) > 0 {
			if err := a.prometheus.Scrape(targets); err != nil {
				a.t.Errorf("tell Prometheus of its targets: %v", err)
			}
		}
		samples, err := a.prometheus.Query(ctx, "ALERTS")
		if err == nil {
			a.look(time.Now(), samples)
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// targets returns the pods of the product with the labels of ServiceMonitors. While the API server
// does not answer, it returns the last targets.
func (a *alarms) targets(ctx context.Context) (targets []prometheus.Target, err error) {
	var pods corev1.PodList
	if err := a.List(ctx, &pods, client.InNamespace(product.Namespace)); err != nil {
		return nil, err
	}
	for _, p := range pods.Items {
		if p.Status.PodIP == "" || p.DeletionTimestamp != nil {
			continue
		}
		add := func(service string, port int) {
			targets = append(targets, prometheus.Target{
				Targets: []string{fmt.Sprintf("%s:%d", p.Status.PodIP, port)},
				Labels:  map[string]string{"job": service, "service": service, "namespace": p.Namespace, "pod": p.Name},
			})
		}
		switch p.Labels["component"] {
		case "allocator":
			add("allocator-metrics", 7472)
		case "lbnodeagent":
			add("lbnodeagent-metrics", 7472)
			add("purelb-k8gobgp-metrics", 7473)
		}
	}
	return targets, nil
}

// look records the firing alerts.
func (a *alarms) look(now time.Time, samples []prometheus.Sample) {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.active)
	for _, s := range samples {
		name := s.Labels["alertname"]
		a.active[name] = true
		if s.Labels["alertstate"] != "firing" {
			continue
		}
		if _, known := a.fired[name]; known {
			continue
		}
		i := slices.IndexFunc(a.faults, func(f alertFault) bool { return slices.Contains(f.alerts, name) })
		if i < 0 && !a.armed {
			continue
		}
		if i < 0 {
			if !a.early[name] {
				a.t.Logf("%s fires before its fault: %v", name, s.Labels)
			}
			a.early[name] = true
			continue
		}
		a.fired[name] = now.Sub(a.faults[i].began)
		a.t.Logf("%s: %s fires after %s", a.faults[i].what, name, a.fired[name].Round(100*time.Millisecond))
	}
}

// begin records the start of a fault that must cause these alerts.
func (a *alarms) begin(what string, alerts ...string) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range alerts {
		if !slices.Contains(a.names, name) {
			a.t.Fatalf("the chart has no alert %s", name)
		}
	}
	a.faults = append(a.faults, alertFault{what, alerts, time.Now()})
}

// fire waits until these alerts have fired, or those of the last fault.
func (a *alarms) fire(alerts ...string) {
	a.t.Helper()
	if len(alerts) == 0 {
		alerts = a.faults[len(a.faults)-1].alerts
	}
	for limit := time.Now().Add(5 * patience * time.Duration(max(1, quickly/a.factor))); ; {
		missing := slices.DeleteFunc(slices.Clone(alerts), func(name string) bool { return a.has(name) })
		if len(missing) == 0 {
			return
		}
		if time.Now().After(limit) {
			a.t.Errorf("%v did not fire", missing)
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// has reports whether these alerts have fired.
func (a *alarms) has(alerts ...string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !slices.ContainsFunc(alerts, func(name string) bool { return a.fired[name] == 0 })
}

// silent waits until no alert is firing or pending.
func (a *alarms) silent() {
	a.t.Helper()
	var still []string
	for limit := time.Now().Add(5 * patience); ; time.Sleep(500 * time.Millisecond) {
		a.mu.Lock()
		still = slices.Sorted(maps.Keys(a.active))
		a.mu.Unlock()
		if len(still) == 0 {
			return
		}
		if time.Now().After(limit) {
			a.t.Errorf("%v still fire", still)
			return
		}
	}
}

// quiet fails the test if an alert fires in a healthy cluster.
func (a *alarms) quiet() {
	a.t.Helper()
	time.Sleep(calm)
	samples, err := a.prometheus.Query(a.ctx, fmt.Sprintf(`count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[%ds]))`, int((calm-2*scrapes).Seconds())))
	if err != nil {
		a.t.Fatal(err)
	}
	for _, s := range samples {
		a.t.Errorf("the cluster is healthy, and %s fires", s.Labels["alertname"])
	}
	samples, err = a.prometheus.Query(a.ctx, "up")
	if err != nil || len(samples) < 1+2*len(lab.Nodes()) {
		a.t.Errorf("Prometheus scrapes %d targets (%v), want all programs of %d nodes", len(samples), err, len(lab.Nodes()))
	}
}

// query waits until a query returns a result.
func (a *alarms) query(what, expr string) {
	a.t.Helper()
	a.until(2*patience, what, func() bool {
		samples, err := a.prometheus.Query(a.ctx, expr)
		return err == nil && len(samples) > 0
	})
}

// dashboards fails the test if a query of the chart's dashboards has returned no result since the
// start of the test.
func (a *alarms) dashboards() {
	a.t.Helper()
	files, err := filepath.Glob(filepath.Join(lab.tree.Root, "charts/purelb/dashboards/*.json"))
	if err != nil || len(files) == 0 {
		a.t.Fatalf("the chart has no dashboards: %v", err)
	}
	asked := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			a.t.Fatal(err)
		}
		var d struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &d); err != nil {
			a.t.Fatalf("%s: %v", file, err)
		}
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				expr := strings.ReplaceAll(q.Expr, "$__rate_interval", "30s")
				samples, err := a.prometheus.Query(a.ctx, fmt.Sprintf("count(last_over_time((%s)[15m:4s]))", expr))
				if asked++; err != nil || len(samples) == 0 {
					a.t.Errorf("%s: %q: %s returns nothing (%v)", filepath.Base(file), p.Title, q.Expr, err)
				}
			}
		}
	}
	a.t.Logf("%d queries of %d dashboards", asked, len(files))
}

// scraped waits until Prometheus has read all targets.
func (a *alarms) scraped() {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.ctx, 3*patience)
	defer cancel()
	err := kube.Until(ctx, func() (string, bool) {
		samples, err := a.prometheus.Query(a.ctx, "sum(up)")
		if err == nil && len(samples) == 1 && samples[0].Value == strconv.Itoa(1+2*len(lab.Nodes())) {
			return "", true
		}
		failures, wrong := a.prometheus.Failures(a.ctx)
		return fmt.Sprintf("the programs up are %v; %q (%v)", samples, failures, errors.Join(err, wrong)), false
	})
	if err != nil {
		a.t.Fatalf("waiting until Prometheus reads the metrics of all programs: %v", err)
	}
	a.silent()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.armed = true
}

// Marks around the table in docs/alerts.md.
const (
	tableBegin = "<!-- The table is written by TestAlertsFire with -update. -->\n"
	tableEnd   = "<!-- end of the table -->\n"
)

// table returns the table of faults and their alerts.
func (a *alarms) table(seconds bool) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	rows := "| Fault | Alert | Fires after |\n|---|---|---|\n"
	for _, f := range a.faults {
		for _, name := range f.alerts {
			after := ""
			if seconds {
				after = fmt.Sprintf("%.0f s", a.fired[name].Seconds())
			}
			rows += fmt.Sprintf("| %s | %s | %s |\n", f.what, name, after)
		}
	}
	return rows
}

// document compares the table of faults and alerts with docs/alerts.md, or writes it there. It does
// not compare the seconds, which differ from run to run.
func (a *alarms) document() {
	a.t.Helper()
	file := filepath.Join(lab.tree.Root, "docs/alerts.md")
	text, err := os.ReadFile(file)
	if err != nil {
		a.t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), tableBegin)
	has, after, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		a.t.Fatalf("%s has no table between %q and %q", file, tableBegin, tableEnd)
	}
	if *update {
		if err := os.WriteFile(file, []byte(before+tableBegin+a.table(true)+tableEnd+after), 0o644); err != nil {
			a.t.Fatal(err)
		}
		return
	}
	var rows []string
	for line := range strings.Lines(has) {
		cells := strings.Split(line, "|")
		if len(cells) == 5 {
			cells[3] = "  "
		}
		rows = append(rows, strings.Join(cells, "|"))
	}
	rows[0], rows[1] = "| Fault | Alert | Fires after |\n", "|---|---|---|\n"
	if got, want := strings.Join(rows, ""), a.table(false); got != want {
		a.t.Errorf("%s has the table\n%s\nbut the test measured\n%s\nwrite it with -update", file, got, want)
	}
}

// complete fails the test if an alert of the chart never fired.
func (a *alarms) complete() {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range a.names {
		if a.fired[name] == 0 {
			a.t.Errorf("no fault of this test made %s fire", name)
		}
	}
	if len(a.early) > 0 {
		a.t.Errorf("%v fired before their faults began", slices.Sorted(maps.Keys(a.early)))
	}
}
