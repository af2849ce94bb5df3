// Package prometheus runs Debian's Prometheus on a machine of the lab, with the rules of the chart.
// It knows nothing of the content of the rules.
//
// Debian's Prometheus is built without the discovery of Kubernetes. So the caller provides the
// targets.
package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/kube"
	"purelb.io/purelb/lab/probe"
)

// address is the address of Prometheus on its machine.
const address = "127.0.0.1:9096"

// Prometheus is a running Prometheus.
type Prometheus struct {
	dir  string
	http *http.Client
	stop func() error
}

// Target is a target of Prometheus: an address with port, and the labels of its series.
type Target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// Start runs Prometheus on a machine, with its files in dir. Prometheus scrapes and evaluates once
// in every interval.
func Start(ctx context.Context, c *cluster.Cluster, machine, dir string, interval time.Duration, groups []Group) (*Prometheus, error) {
	p := &Prometheus{dir: dir, http: inside(c.Netns(machine))}
	every := promDuration(interval)
	files := map[string]any{
		"rules.json": map[string]any{"groups": groups},
		"prometheus.json": map[string]any{
			"global":     map[string]any{"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
			"rule_files": []string{filepath.Join(dir, "rules.json")},
			"scrape_configs": []any{map[string]any{
				"job_name":        "purelb",
				"file_sd_configs": []any{map[string]any{"files": []string{filepath.Join(dir, "targets.json")}, "refresh_interval": "1s"}},
			}},
		},
	}
	for name, content := range files {
		if err := write(filepath.Join(dir, name), content); err != nil {
			return nil, err
		}
	}
	if err := p.Scrape(nil); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	ctx, cancel := context.WithCancel(ctx)
	cmd, err := c.Command(ctx, machine, "prometheus", "--config.file="+filepath.Join(dir, "prometheus.json"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	if err != nil {
		cancel()
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("start Prometheus on %s (is Debian's package prometheus installed?): %w", machine, err)
	}
	p.stop = func() error {
		cancel()
		_ = cmd.Wait() // the error only reports the kill
		return nil
	}
	limit, end := context.WithTimeout(ctx, time.Minute)
	defer end()
	err = kube.Until(limit, func() (string, bool) {
		_, err := p.Query(limit, "vector(1)")
		return fmt.Sprint(err), err == nil
	})
	if err != nil {
		said, _ := os.ReadFile(log.Name())
		return nil, errors.Join(fmt.Errorf("Prometheus does not serve: %w\n%s", err, said), p.stop())
	}
	return p, nil
}

// Stop ends Prometheus.
func (p *Prometheus) Stop() error { return p.stop() }

// Scrape replaces the targets of Prometheus. The change takes effect within a second.
func (p *Prometheus) Scrape(targets []Target) error {
	if targets == nil {
		targets = []Target{}
	}
	file := filepath.Join(p.dir, "targets.json")
	if err := write(file+".new", targets); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// Sample is one series of an answer. Value is a number as Prometheus writes it.
type Sample struct {
	Labels map[string]string
	Value  string
}

// Query returns the current value of an expression.
func (p *Prometheus) Query(ctx context.Context, expr string) ([]Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var found struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	if err := p.ask(ctx, "query", url.Values{"query": {expr}}, &found); err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, err)
	}
	var samples []Sample
	for _, r := range found.Result {
		samples = append(samples, Sample{r.Metric, fmt.Sprint(r.Value[1])})
	}
	return samples, nil
}

// Failures returns the error of each target whose last scrape failed.
func (p *Prometheus) Failures(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var found struct {
		ActiveTargets []struct {
			ScrapeURL, Health, LastError string
		}
	}
	if err := p.ask(ctx, "targets", url.Values{"state": {"active"}}, &found); err != nil {
		return nil, fmt.Errorf("ask for the targets: %w", err)
	}
	var failures []string
	for _, t := range found.ActiveTargets {
		if t.Health != "up" {
			failures = append(failures, fmt.Sprintf("%s is %s: %s", t.ScrapeURL, t.Health, t.LastError))
		}
	}
	return failures, nil
}

// ask returns the data of an answer of Prometheus's API.
func (p *Prometheus) ask(ctx context.Context, what string, with url.Values, data any) error {
	method, body, query := http.MethodGet, io.Reader(nil), "?"+with.Encode()
	if what == "query" {
		method, body, query = http.MethodPost, strings.NewReader(with.Encode()), "" // an expression may be long
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+address+"/api/v1/"+what+query, body)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	reply, err := p.http.Do(request)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return err
	}
	answer := struct {
		Error string
		Data  any
	}{Data: data}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	return nil
}

func write(file string, content any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// inside returns a client in the network namespace at path.
func inside(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (c net.Conn, err error) {
		err = probe.In(path, func() error {
			c, err = (&net.Dialer{FallbackDelay: -1}).DialContext(ctx, network, address)
			return err
		})
		return c, err
	}}}
}
