package chart

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestValuesReachTheObjectsThatTheyAreFor(t *testing.T) {
	for _, tt := range []struct {
		name, values, object string
		want, not            []string
	}{
		{
			name:   "the images are those of the chart's release",
			object: "Deployment allocator",
			want:   []string{"image: ghcr.io/purelb/purelb/allocator:0.1.0"},
		}, {
			name:   "the registry and the tag can be others",
			values: "image: {repository: registry.example.org/lb, tag: abc}",
			object: "DaemonSet lbnodeagent",
			want:   []string{"image: registry.example.org/lb/lbnodeagent:abc"},
		}, {
			name:   "one allocator is replaced, not doubled",
			object: "Deployment allocator",
			want:   []string{"replicas: 1", "type: Recreate"},
		}, {
			name:   "the allocator leaves a node that is lost after a short time",
			object: "Deployment allocator",
			want: []string{
				"- effect: NoExecute\n        key: node.kubernetes.io/not-ready\n        operator: Exists\n        tolerationSeconds: 10",
				"- effect: NoExecute\n        key: node.kubernetes.io/unreachable\n        operator: Exists\n        tolerationSeconds: 10",
			},
		}, {
			name:   "that time can be another one beside other tolerations",
			values: "allocator: {tolerationSeconds: 0, tolerations: [{key: dedicated, operator: Exists}]}",
			object: "Deployment allocator",
			want:   []string{"key: node.kubernetes.io/unreachable\n        operator: Exists\n        tolerationSeconds: 0", "- key: dedicated"},
		}, {
			name:   "Services can have addresses of pod networks that are not in use",
			values: "allocator: {podCIDRs: false}",
			object: "Deployment allocator",
			want:   []string{"name: PURELB_POD_CIDRS\n          value: \"false\""},
		}, {
			name:   "the cluster can have a name in NetBox",
			values: "allocator: {ipam: {clusterName: production}}",
			object: "Deployment allocator",
			want:   []string{"name: PURELB_CLUSTER_NAME\n          value: production"},
		}, {
			name:   "Services without a class can be left to others",
			values: "defaultAnnouncer: nobody",
			object: "Deployment allocator",
			want:   []string{"name: DEFAULT_ANNOUNCER\n          value: nobody"},
		}, {
			name:   "the agents run on every node of Linux, also where nothing is scheduled",
			object: "DaemonSet lbnodeagent",
			want:   []string{"kubernetes.io/os: linux", "- effect: NoSchedule\n        operator: Exists"},
		}, {
			name:   "tolerations are added to it",
			values: "lbnodeagent: {tolerations: [{key: dedicated, operator: Exists, effect: NoExecute}]}",
			object: "DaemonSet lbnodeagent",
			want:   []string{"- effect: NoSchedule", "- effect: NoExecute\n        key: dedicated"},
		}, {
			name:   "the port of the agents can be another",
			values: "lbnodeagent: {port: 17472}",
			object: "DaemonSet lbnodeagent",
			want:   []string{"- --port=17472", "containerPort: 17472", `prometheus.io/port: "17472"`},
		}, {
			name:   "the kubelet can be elsewhere, for agent and speaker",
			values: "lbnodeagent: {kubeletHealth: none}",
			object: "DaemonSet lbnodeagent",
			want:   []string{"name: PURELB_KUBELET_HEALTH\n          value: none\n        - name: PURELB_GOSSIP", "name: PURELB_KUBELET_HEALTH\n          value: none\n        - name: K8GOBGP"},
		}, {
			name:   "addresses need not have metrics of their own",
			values: "lbnodeagent: {maxAddressMetrics: 0}",
			object: "DaemonSet lbnodeagent",
			want:   []string{"name: PURELB_MAX_ADDRESS_METRICS\n          value: \"0\""},
		}, {
			name:   "agents may watch addresses of each other",
			values: "observer: {enabled: true}",
			object: "DaemonSet lbnodeagent",
			want:   []string{"name: PURELB_OBSERVER\n          value: \"true\""},
		}, {
			name:   "lease times",
			values: "leaseConfig: {leaseDuration: 1m4s, renewDeadline: 40s}",
			object: "DaemonSet lbnodeagent",
			want:   []string{"name: PURELB_LEASE_DURATION\n          value: 1m4s", "name: PURELB_RETRY_PERIOD\n          value: 2s"},
		}, {
			name:   "agents gossip at the address of their node",
			object: "DaemonSet lbnodeagent",
			want: []string{
				"name: PURELB_GOSSIP_ADDRESS\n          valueFrom:\n            fieldRef:\n              fieldPath: status.hostIP",
				"name: PURELB_GOSSIP_PORT\n          value: \"7934\"", "name: PURELB_GOSSIP_SECRET\n          value: purelb-gossip",
				"name: PURELB_GOSSIP_PATIENCE\n          value: 400ms",
			},
		}, {
			name:   "nodes may pause for longer",
			values: "gossip: {patience: 2s}",
			object: "DaemonSet lbnodeagent",
			want:   []string{"name: PURELB_GOSSIP_PATIENCE\n          value: 2s"},
		}, {
			name:   "the port and the key of the gossip can be others",
			values: "gossip: {port: 17934, secretName: mine}",
			object: "DaemonSet lbnodeagent",
			want:   []string{"value: \"17934\"", "containerPort: 17934", "value: mine"},
		}, {
			name:   "the allocator makes the key of the gossip",
			values: "gossip: {secretName: mine}",
			object: "Deployment allocator",
			want:   []string{"name: PURELB_GOSSIP_SECRET\n          value: mine"},
		}, {
			name:   "a priority class is for all pods",
			values: "priorityClassName: mine",
			object: "DaemonSet lbnodeagent",
			want:   []string{"priorityClassName: mine"},
			not:    []string{"system-node-critical"},
		}, {
			name:   "a priority class is for the allocator too",
			values: "priorityClassName: mine",
			object: "Deployment allocator",
			want:   []string{"priorityClassName: mine"},
		}, {
			name:   "both pods use the credentials of the registry",
			values: "imagePullSecrets: [{name: mine}]",
			object: "DaemonSet lbnodeagent",
			want:   []string{"imagePullSecrets:\n      - name: mine", "terminationGracePeriodSeconds: 15"},
		}, {
			name:   "no kubelet evicts an agent when the node runs out of memory or disk",
			object: "DaemonSet lbnodeagent",
			want:   []string{"priorityClassName: system-node-critical"},
		}, {
			name:   "a cluster that refuses that class can do without",
			values: "lbnodeagent: {priorityClassName: \"\"}",
			object: "DaemonSet lbnodeagent",
			not:    []string{"priorityClassName"},
		}, {
			name:   "the allocator can go to another node",
			object: "Deployment allocator",
			not:    []string{"priorityClassName"},
		}, {
			name:   "the default LBNodeAgent",
			object: "LBNodeAgent default",
			want:   []string{"dummyInterface: kube-lb0", "localInterface: default"},
		}, {
			name:   "the names of the chart of the first API still work",
			values: "lbnodeagent: {localint: enp1s0, extlbint: lb0, sendgarp: false, podSecurityPolicy: {enabled: true}}",
			object: "LBNodeAgent default",
			want:   []string{"localInterface: enp1s0", "dummyInterface: lb0", "sendgarp: false"},
		}, {
			name:   "all that an LBNodeAgent can say",
			values: "lbnodeagent: {interfaces: [eth1], garpConfig: {count: 5}, addressConfig: {localInterface: {validLifetime: 120}}}",
			object: "LBNodeAgent default",
			want:   []string{"interfaces:\n    - eth1", "count: 5", "validLifetime: 120"},
		}, {
			name:   "further LBNodeAgents",
			values: "lbnodeagent: {agents: [{name: storage, spec: {nodeSelector: {matchLabels: {rack: storage}}, local: {localInterface: bond0}}}]}",
			object: "LBNodeAgent storage",
			want:   []string{"namespace: purelb-system", "rack: storage", "localInterface: bond0"},
		}, {
			name:   "a ServiceGroup to begin with",
			values: "serviceGroup: {create: true, name: first, spec: {local: {v4pool: {subnet: 192.168.1.0/24, pool: 192.168.1.200-192.168.1.230}}}}",
			object: "ServiceGroup first",
			want:   []string{"pool: 192.168.1.200-192.168.1.230", "namespace: purelb-system"},
		}, {
			name:   "a headless Service for Prometheus",
			values: "Prometheus: {allocator: {Metrics: {enabled: true}}}",
			object: "Service allocator-metrics",
			want:   []string{"clusterIP: None", "component: allocator", "port: 7472"},
		}, {
			name:   "a ServiceMonitor",
			values: "Prometheus: {lbnodeagent: {serviceMonitor: {enabled: true, extraLabels: {release: prometheus}}}}",
			object: "ServiceMonitor lbnodeagent",
			want:   []string{"release: prometheus", "- port: monitoring"},
		}, {
			name:   "rules for alerts can be in another namespace",
			values: "Prometheus: {allocator: {prometheusRules: {enabled: true, namespace: monitoring}}}",
			object: "PrometheusRule allocator",
			want:   []string{"namespace: monitoring", "PureLBPoolAlmostExhausted", "{{ $labels.pool }}"},
		}, {
			name:   "the speaker is of the same release",
			values: "image: {repository: registry.example.org/lb, tag: abc}",
			object: "DaemonSet lbnodeagent",
			want:   []string{"image: registry.example.org/lb/k8gobgp:abc", "containerPort: 179", "containerPort: 7473", "containerPort: 7474"},
		}, {
			name:   "what a speaker is asked and told has the names of old",
			object: "DaemonSet lbnodeagent",
			want:   []string{"name: k8gobgp", "- name: NODE_NAME", "- name: POD_NAME", "- name: POD_NAMESPACE", "path: /healthz\n            port: bgp-health"},
		}, {
			name:   "a BGPConfiguration to begin with",
			values: "gobgp: {configuration: {create: true, spec: {global: {asn: 65001}}}}",
			object: "BGPConfiguration default",
			want:   []string{"namespace: purelb-system", "asn: 65001"},
		}, {
			name:   "a headless Service for the metrics of the speakers",
			values: "Prometheus: {k8gobgp: {serviceMonitor: {enabled: true}}}",
			object: "Service purelb-k8gobgp-metrics",
			want:   []string{"clusterIP: None", "component: lbnodeagent", "port: 7473", "targetPort: bgp-monitoring"},
		}, {
			name:   "a ServiceMonitor finds it",
			values: "Prometheus: {k8gobgp: {serviceMonitor: {enabled: true}}}",
			object: "ServiceMonitor k8gobgp",
			want:   []string{"matchLabels:\n      app: purelb\n      component: k8gobgp"},
		}, {
			name:   "templates in further objects are rendered",
			values: "extraObjects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: \"of-{{ .Release.Name }}\"}}]",
			object: "ConfigMap of-purelb",
			want:   []string{"kind: ConfigMap"},
		}, {
			name:   "values of older charts that do nothing any more",
			values: "fullnameOverride: lb\nmemberlistSecretKey: abc\ngobgp: {enabled: true, image: {tag: 0.2.4}}",
			object: "Deployment allocator",
			want:   []string{"name: allocator"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, ok := mustRender(t, tt.values)[tt.object]
			if !ok {
				t.Fatalf("there is no %s", tt.object)
			}
			text, err := yaml.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.want {
				if !strings.Contains(string(text), want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
			for _, not := range tt.not {
				if strings.Contains(string(text), not) {
					t.Errorf("%q in\n%s", not, text)
				}
			}
		})
	}
}

func TestMistakesInValuesAreNamed(t *testing.T) {
	for _, tt := range []struct{ name, values, want string }{
		{"a component that is misspelt", "alocator: {}", "'alocator' not allowed"},
		{"a setting that is misspelt", "lbnodeagent: {localinterface: eth0}", "'localinterface' not allowed"},
		{"a setting in the wrong place", "lbnodeagent: {replicas: 2}", "'replicas' not allowed"},
		{"a misspelling deep inside", "lbnodeagent: {garpConfig: {counts: 2}}", "'counts' not allowed"},
		{"a duration without its unit", "leaseConfig: {retryPeriod: 2}", "at '/leaseConfig/retryPeriod': got number, want string"},
		{"a name that no interface can have", "lbnodeagent: {dummyInterface: kube-loadbalancer0}", "at '/lbnodeagent/dummyInterface'"},
		{"a ServiceGroup without addresses", "serviceGroup: {create: true}", "at '/serviceGroup/spec'"},
		{"an LBNodeAgent without a name", "lbnodeagent: {agents: [{spec: {local: {}}}]}", "missing property 'name'"},
		{"a setting of the speaker that is misspelt", "gobgp: {nativesidecar: true}", "'nativesidecar' not allowed"},
		{"a BGPConfiguration that says nothing", "gobgp: {configuration: {create: true}}", "at '/gobgp/configuration/spec'"},
		{"an IPAM server without an image", "allocator: {ipam: {containers: [{name: ipam}]}}", "missing property 'image'"},
		{"an IPAM server with the name of the allocator", "allocator: {ipam: {containers: [{name: allocator, image: x}]}}", "at '/allocator/ipam/containers/0/name'"},
		{"a volume with the name of the sockets", "allocator: {ipam: {volumes: [{name: ipam-socket}]}}", "at '/allocator/ipam/volumes/0/name'"},
		{"a name that no Secret has", "allocator: {netbox: {secrets: [other/token]}}", "at '/allocator/netbox/secrets/0'"},
		{"a registry with a scheme", `image: {repository: "https://registry.example.org/lb"}`, `image.repository is "https://registry.example.org/lb", which is not the beginning of an image name. Write it without https://`},
		{"a registry with a slash at its end", "image: {repository: registry.example.org:5000/lb/}", "without a slash at the end"},
		{"a digest as a tag", `image: {tag: "v1@sha256:0"}`, `image.tag is "v1@sha256:0", but a tag has only letters, digits, '_', '.' and '-'. A digest belongs in image.digests.`},
		{"a label that no object can have", "nameOverride: load balancer", "at '/nameOverride'"},
		{"an agent on the port of the gossip", "gossip: {port: 7472}", "gossip.port is 7472, which is lbnodeagent.port on the same node. Choose another port."},
		{"an agent on a port of the speaker", "lbnodeagent: {port: 7473}", "lbnodeagent.port is 7473, which is a port of the BGP speaker on the same node. Choose another port."},
		{"gossip on a port of the speaker", "gossip: {port: 4784}", "gossip.port is 4784, which is a port of the BGP speaker on the same node. Choose another port."},
		{"a number in the environment", "allocator: {extraEnv: [{name: GOMAXPROCS, value: 1}]}", "at '/allocator/extraEnv/0/value': got number, want string"},
		{"a variable of the chart", "allocator: {extraEnv: [{name: PURELB_LOG_LEVEL, value: debug}]}", "allocator.extraEnv has the name PURELB_LOG_LEVEL, which the container has already. Remove the entry."},
		{"a variable that is there twice", "lbnodeagent: {extraEnv: [{name: A, value: a}, {name: A, value: b}]}", "lbnodeagent.extraEnv has the name A, which the container has already. Remove the entry."},
		{"a Secret whose name is a number", "imagePullSecrets: [{name: 5}]", "at '/imagePullSecrets/0/name': got number, want string"},
		{"a Lease that ends before its renewal", "leaseConfig: {leaseDuration: 4s}", "leaseConfig.renewDeadline is 7s, but it must be shorter than leaseConfig.leaseDuration, which is 4s. Otherwise no agent starts."},
		{"a Lease that is not renewed twice", "leaseConfig: {retryPeriod: 7000ms}", "leaseConfig.retryPeriod is 7000ms, but it must be longer than 0 and shorter than leaseConfig.renewDeadline, which is 7s. Otherwise no agent starts."},
		{"a Lease that is renewed without a pause", `leaseConfig: {retryPeriod: "0"}`, `leaseConfig.retryPeriod is 0, but it must be longer than 0`},
		{"a Lease of less than a second", "leaseConfig: {leaseDuration: 900ms, renewDeadline: 0.5s, retryPeriod: 100ms}", "leaseConfig.leaseDuration is 900ms, but it must be at least 1s. Otherwise no agent starts."},
		{"a log level that there is not", "logLevel: verbose", "at '/logLevel': value must be one of 'info', 'debug'"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := render(t, tt.values)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one with %q", err, tt.want)
			}
		})
	}
}

// A selector that does not match the pods would leave the object without them.
func TestSelectorsMatchThePods(t *testing.T) {
	objects := mustRender(t, "Prometheus: {allocator: {Metrics: {enabled: true}}, lbnodeagent: {Metrics: {enabled: true}}, k8gobgp: {Metrics: {enabled: true}}}")
	d := typed[appsv1.Deployment](t, objects["Deployment allocator"]).Spec
	ds := typed[appsv1.DaemonSet](t, objects["DaemonSet lbnodeagent"]).Spec
	for _, tt := range []struct {
		name          string
		selector, pod map[string]string
	}{
		{"Deployment", d.Selector.MatchLabels, d.Template.Labels},
		{"DaemonSet", ds.Selector.MatchLabels, ds.Template.Labels},
		{"metrics of the allocator", typed[corev1.Service](t, objects["Service allocator-metrics"]).Spec.Selector, d.Template.Labels},
		{"metrics of the agents", typed[corev1.Service](t, objects["Service lbnodeagent-metrics"]).Spec.Selector, ds.Template.Labels},
		{"metrics of the speakers", typed[corev1.Service](t, objects["Service purelb-k8gobgp-metrics"]).Spec.Selector, ds.Template.Labels},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for k, want := range tt.selector {
				if got := tt.pod[k]; got != want {
					t.Errorf("it selects %s=%s, and the pods have %q", k, want, got)
				}
			}
			if diff := cmp.Diff("purelb", tt.selector["app"]); diff != "" {
				t.Errorf("it does not select app=purelb: %s", diff)
			}
		})
	}
}

func TestTheTolerationsOfTheAllocatorCanBeThoseOfKubernetes(t *testing.T) {
	d := typed[appsv1.Deployment](t, mustRender(t, "allocator: {tolerationSeconds: null}")["Deployment allocator"])
	if got := d.Spec.Template.Spec.Tolerations; len(got) > 0 {
		t.Errorf("the tolerations are %v", got)
	}
}

func TestWithoutGossipBGPAndNetBoxNobodyHasASecret(t *testing.T) {
	without(t, "gossip: {enabled: false}\ngobgp: {enabled: false}\nallocator: {netbox: {secrets: []}}", "GOSSIP", "secrets", "gossip")
}

func TestWithoutBGPNothingIsLeftOfIt(t *testing.T) {
	without(t, "gobgp: {enabled: false, configuration: {create: true, spec: {global: {asn: 1}}}}\nPrometheus: {k8gobgp: {serviceMonitor: {enabled: true}}}", "bgp", "BGP")
}

// without looks that no object has one of the words. People may always read the objects of
// BGP: a Helm release without BGP leaves the CRDs, and their objects, in place.
func without(t *testing.T, values string, words ...string) {
	t.Helper()
	objects := mustRender(t, values)
	delete(objects, "ClusterRole purelb-viewer")
	for name, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range words {
			if strings.Contains(string(text), word) {
				t.Errorf("%s has %q", name, word)
			}
		}
	}
}
