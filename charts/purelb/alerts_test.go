package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// alertCases are series and the alerts that promtool must find in them, in the format
// of "promtool test rules". Each series is of one minute per value.
const alertCases = `
rule_files: [rules.yaml]
evaluation_interval: 1m
tests:
- name: a group with a /64 and a full IPv4 range
  interval: 1m
  input_series:
  - {series: 'purelb_address_pool_size{pool="default"}', values: '18446744073709551618x60'}
  - {series: 'purelb_address_pool_addresses_in_use{pool="default"}', values: '4x60'}
  - {series: 'purelb_address_pool_available{pool="default",family="IPv4"}', values: '0x60'}
  - {series: 'purelb_address_pool_capacity{pool="default",family="IPv4"}', values: '2x60'}
  - {series: 'purelb_address_pool_available{pool="default",family="IPv6"}', values: '9223372036854775807x60'}
  - {series: 'purelb_address_pool_capacity{pool="default",family="IPv6"}', values: '9223372036854775807x60'}
  alert_rule_test:
  - alertname: PureLBPoolAlmostExhausted
    eval_time: 20m
    exp_alerts:
    - exp_labels: {severity: warning, pool: default, family: IPv4}
      exp_annotations: {summary: ServiceGroup default has 0 IPv4 addresses left}
- name: a group whose addresses are nearly all held or blocked
  interval: 1m
  input_series:
  - {series: 'purelb_address_pool_size{pool="default"}', values: '256x60'}
  - {series: 'purelb_address_pool_addresses_in_use{pool="default"}', values: '10x60'}
  - {series: 'purelb_address_pool_available{pool="default",family="IPv4"}', values: '1x60'}
  - {series: 'purelb_address_pool_capacity{pool="default",family="IPv4"}', values: '11x60'}
  alert_rule_test:
  - alertname: PureLBPoolAlmostExhausted
    eval_time: 20m
    exp_alerts:
    - exp_labels: {severity: warning, pool: default, family: IPv4}
      exp_annotations: {summary: ServiceGroup default has 1 IPv4 addresses left}
- name: a group with room
  interval: 1m
  input_series:
  - {series: 'purelb_address_pool_size{pool="default"}', values: '11x60'}
  - {series: 'purelb_address_pool_addresses_in_use{pool="default"}', values: '9x60'}
  - {series: 'purelb_address_pool_available{pool="default",family="IPv4"}', values: '2x60'}
  - {series: 'purelb_address_pool_capacity{pool="default",family="IPv4"}', values: '11x60'}
  alert_rule_test:
  - {alertname: PureLBPoolAlmostExhausted, eval_time: 50m, exp_alerts: []}
- name: a Service that has waited for an hour, and was refused once
  interval: 1m
  input_series:
  - {series: 'purelb_address_pool_allocation_rejected_total{pool="default",reason="exhausted"}', values: '0 1x60'}
  - {series: 'purelb_services_waiting{pool="default",reason="exhausted"}', values: '0 1x60'}
  alert_rule_test:
  - alertname: PureLBServicesWaiting
    eval_time: 60m
    exp_alerts:
    - exp_labels: {severity: warning, pool: default, reason: exhausted}
      exp_annotations: {summary: '1 Services wait for an address from default: exhausted'}
- name: a Service that waits for a moment, and one that has one of two addresses
  interval: 1m
  input_series:
  - {series: 'purelb_services_waiting{pool="default",reason="exhausted"}', values: '0 1 1 0x60'}
  - {series: 'purelb_services_waiting{pool="default",reason="partial"}', values: '1x60'}
  alert_rule_test:
  - {alertname: PureLBServicesWaiting, eval_time: 3m, exp_alerts: []}
  - {alertname: PureLBServicesWaiting, eval_time: 30m, exp_alerts: []}
- name: a refusal
  interval: 1m
  input_series:
  - {series: 'purelb_address_pool_allocation_rejected_total{pool="default",reason="exhausted"}', values: '0 1x60'}
  alert_rule_test:
  - alertname: PureLBAllocationRejected
    eval_time: 5m
    exp_alerts:
    - exp_labels: {severity: warning, pool: default, reason: exhausted}
      exp_annotations: {summary: 'Services did not get an address from default: exhausted'}
- name: two machines outside the cluster that have addresses of pools
  interval: 1m
  input_series:
  - {series: 'purelb_addresses_quarantined{instance="allocator"}', values: '0 2x60'}
  alert_rule_test:
  - alertname: PureLBAddressesQuarantined
    eval_time: 20m
    exp_alerts:
    - exp_labels: {severity: warning, instance: allocator}
      exp_annotations: {summary: 'Machines outside the cluster have 2 addresses of ServiceGroups'}
- name: a machine that had an address of a pool for a moment, and an allocator without a quarantine
  interval: 1m
  input_series:
  - {series: 'purelb_addresses_quarantined{instance="allocator"}', values: '0 1x10 0x60'}
  - {series: 'purelb_addresses_quarantined{instance="standby"}', values: '0x60'}
  alert_rule_test:
  - {alertname: PureLBAddressesQuarantined, eval_time: 10m, exp_alerts: []}
  - {alertname: PureLBAddressesQuarantined, eval_time: 40m, exp_alerts: []}
`

func TestAlertsFireWhenTheyShould(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatalf("%v: it is in Debian's package prometheus, which \"make deps\" installs", err)
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("rules.yaml", allRules(t))
	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", write("cases.yaml", alertCases)).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

// allRules are the rules of all PrometheusRules of the chart, as Prometheus reads
// them.
func allRules(t *testing.T) string {
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
	text, err := yaml.Marshal(map[string]any{"groups": groups})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
