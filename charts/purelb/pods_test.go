package chart

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// ofPods sets what other charts let users say of pods, accounts and labels.
const ofPods = `
commonLabels: {cost: net}
allocator:
  podLabels: {istio: "off"}
  affinity: {nodeAffinity: {}}
  priorityClassName: low
  terminationGracePeriodSeconds: 21
  serviceAccount: {name: alice, annotations: {role: "1"}}
  startupProbe: {failureThreshold: 61}
  livenessProbe: {timeoutSeconds: 3}
  readinessProbe: null
lbnodeagent:
  podLabels: {istio: "off"}
  affinity: {podAffinity: {}}
  terminationGracePeriodSeconds: 22
  serviceAccount: {create: false, name: bob}
  livenessProbe: {periodSeconds: 12}
gobgp:
  readinessProbe: {periodSeconds: 13}
Prometheus:
  allocator: {podMonitor: {enabled: true, extraLabels: {release: prometheus}}}
  k8gobgp: {podMonitor: {enabled: true}}
`

func TestPodsAccountsAndLabelsAreAsTheUserSays(t *testing.T) {
	objects := mustRender(t, ofPods)
	for name, o := range objects {
		if o.GetLabels()["cost"] != "net" {
			t.Errorf("%s has the labels %v", name, o.GetLabels())
		}
	}
	for object, want := range map[string][]string{
		"Deployment allocator": {
			"        cost: net\n        istio: \"off\"", "nodeAffinity: {}", "priorityClassName: low", "terminationGracePeriodSeconds: 21",
			"serviceAccountName: alice", "failureThreshold: 61", "timeoutSeconds: 3", "path: /readyz\n            port: health\n",
		},
		"DaemonSet lbnodeagent": {
			"        cost: net\n        istio: \"off\"", "podAffinity: {}", "priorityClassName: system-node-critical", "terminationGracePeriodSeconds: 22",
			"serviceAccountName: bob", "port: monitoring\n          periodSeconds: 12", "port: bgp-health\n          periodSeconds: 13",
		},
		"ServiceAccount alice":                            {`role: "1"`},
		"ClusterRoleBinding purelb:allocator":             {"name: alice"},
		"ClusterRoleBinding purelb:k8gobgp":               {"name: bob"},
		"ValidatingAdmissionPolicy purelb-allocator":      {"'system:serviceaccount:purelb-system:alice'"},
		"ValidatingAdmissionPolicy purelb-agent-services": {"'system:serviceaccount:purelb-system:bob'"},
		"PodMonitor allocator":                            {"release: prometheus", "port: monitoring", "component: allocator"},
		"PodMonitor k8gobgp":                              {"port: bgp-monitoring", "matchLabels:\n      app: purelb\n      component: lbnodeagent"},
	} {
		text, err := yaml.Marshal(objects[object])
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range want {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: want %q in\n%s", object, want, text)
			}
		}
	}
	for _, name := range []string{"ServiceAccount bob", "ServiceAccount allocator", "Service allocator-metrics"} {
		if objects[name] != nil {
			t.Errorf("there is a %s", name)
		}
	}
}

func TestRolesMayBeOfSomebodyElse(t *testing.T) {
	for name := range mustRender(t, "{rbac: {create: false}, configNamespaces: ['*']}") {
		if strings.Contains(name, "Role") {
			t.Errorf("%s is rendered", name)
		}
	}
}
