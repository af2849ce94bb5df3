package prometheus

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// Group is a group of rules, as Prometheus reads it.
type Group struct {
	Name  string `json:"name"`
	Rules []Rule `json:"rules"`
}

// Rule is an alert.
type Rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// RulesOf returns the rules in the values of the chart, in order of components.
func RulesOf(values string) ([]Group, error) {
	file, err := os.Open(values)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var v struct {
		Prometheus map[string]struct {
			PrometheusRules struct {
				Rules []Rule `json:"rules"`
			} `json:"prometheusRules"`
		}
	}
	if err := yaml.NewYAMLOrJSONDecoder(file, 4096).Decode(&v); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", values, err)
	}
	var groups []Group
	for component, c := range v.Prometheus {
		if len(c.PrometheusRules.Rules) > 0 {
			groups = append(groups, Group{Name: "purelb-" + component, Rules: c.PrometheusRules.Rules})
		}
	}
	slices.SortFunc(groups, func(a, b Group) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	if len(groups) == 0 {
		return nil, fmt.Errorf("%s has no rules", values)
	}
	return groups, nil
}

// ranges matches the windows of an expression. days matches the number of seconds in a day.
var (
	ranges = regexp.MustCompile(`\[\w+\]`)
	days   = regexp.MustCompile(`\b86400\b`)
)

// Faster returns the groups with all times divided by factor: the durations of conditions, the
// windows, and days in seconds.
func Faster(groups []Group, factor int) ([]Group, error) {
	out := slices.Clone(groups)
	for i := range out {
		out[i].Rules = slices.Clone(out[i].Rules)
		for j := range out[i].Rules {
			r := &out[i].Rules[j]
			var wrong error
			divide := func(text string) string {
				d, err := parseDuration(text)
				if err != nil {
					wrong = fmt.Errorf("%s: %w", r.Alert, err)
				}
				return promDuration(d / time.Duration(factor))
			}
			if r.For != "" {
				r.For = divide(r.For)
			}
			r.Expr = ranges.ReplaceAllStringFunc(r.Expr, func(window string) string {
				return "[" + divide(window[1:len(window)-1]) + "]"
			})
			r.Expr = days.ReplaceAllString(r.Expr, strconv.Itoa(86400/factor))
			if wrong != nil {
				return nil, wrong
			}
		}
	}
	return out, nil
}

// parseDuration reads a duration of the rules, such as 15m or 6h.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is not a duration such as 15m or 6h", text)
	}
	return d, nil
}

// promDuration writes d as Prometheus reads it.
func promDuration(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }
