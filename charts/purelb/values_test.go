package chart

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"purelb.io/purelb/internal/testing/apitest"
)

// memoryLimit is how a container reads its memory limit.
const memoryLimit = `- name: MEMORY_LIMIT_MIB
          valueFrom:
            resourceFieldRef:
              divisor: 1Mi
              resource: limits.memory
        - name: GOMEMLIMIT
          value: $(MEMORY_LIMIT_MIB)000000B`

func TestValuesReachTheObjectsThatTheyAreFor(t *testing.T) {
	for _, tt := range []struct {
		name, values, object string
		want                 []string // what begins with "!" must not be there
	}{
		{"the images are those of the chart's release", "", "Deployment allocator", []string{"image: ghcr.io/purelb/purelb/allocator:0.1.0"}},
		{"the registry and the tag can be others", "image: {repository: registry.example.org/lb, tag: abc}", "DaemonSet lbnodeagent", []string{"image: registry.example.org/lb/lbnodeagent:abc"}},
		{"one allocator is replaced, not doubled", "", "Deployment allocator", []string{"replicas: 1", "type: Recreate"}},
		{"one of two allocators keeps running", "allocator: {replicas: 2}", "Deployment allocator", []string{"replicas: 2", "type: RollingUpdate"}},
		{"the user's strategy stays", "allocator: {replicas: 2, strategy: {type: Recreate}}", "Deployment allocator", []string{"type: Recreate", "!RollingUpdate"}},
		{"the allocator leaves a node that is lost after a short time", "", "Deployment allocator", []string{
			"- effect: NoExecute\n        key: node.kubernetes.io/not-ready\n        operator: Exists\n        tolerationSeconds: 10",
			"- effect: NoExecute\n        key: node.kubernetes.io/unreachable\n        operator: Exists\n        tolerationSeconds: 10",
		}},
		{"that time can be another one beside other tolerations", "allocator: {tolerationSeconds: 0, tolerations: [{key: dedicated, operator: Exists}]}", "Deployment allocator", []string{
			"key: node.kubernetes.io/unreachable\n        operator: Exists\n        tolerationSeconds: 0",
			"- key: dedicated",
		}},
		{"Services can have addresses of pod networks that are not in use", "allocator: {podCIDRs: false}", "Deployment allocator", []string{"name: PURELB_POD_CIDRS\n          value: \"false\""}},
		{"the cluster can replace another one", "allocator: {ipam: {replacesCluster: 12-ab}}", "Deployment allocator", []string{"name: PURELB_REPLACES_CLUSTER\n          value: 12-ab"}},
		{"the cluster can have a name in NetBox", "allocator: {ipam: {clusterName: production}}", "Deployment allocator", []string{"name: PURELB_CLUSTER_NAME\n          value: production"}},
		{"Services without a class can be left to others", "defaultAnnouncer: nobody", "Deployment allocator", []string{"name: DEFAULT_ANNOUNCER\n          value: nobody"}},
		{"the agents run on every node of Linux, also where nothing is scheduled", "", "DaemonSet lbnodeagent", []string{"kubernetes.io/os: linux", "- effect: NoSchedule\n        operator: Exists"}},
		{"tolerations are added to it", "lbnodeagent: {tolerations: [{key: dedicated, operator: Exists, effect: NoExecute}]}", "DaemonSet lbnodeagent", []string{"- effect: NoSchedule", "- effect: NoExecute\n        key: dedicated"}},
		{"the port of the agents can be another", "lbnodeagent: {port: 17472}", "DaemonSet lbnodeagent", []string{"- --port=17472", "containerPort: 17472", `prometheus.io/port: "17472"`}},
		{"the kubelet can be elsewhere, for agent and speaker", "lbnodeagent: {kubeletHealth: none}", "DaemonSet lbnodeagent", []string{
			"name: PURELB_KUBELET_HEALTH\n          value: none\n        - name: PURELB_KUBE_PROXY_HEALTH",
			"name: PURELB_KUBELET_HEALTH\n          value: none\n        - name: K8GOBGP",
		}},
		{"something else can be in the place of kube-proxy", "lbnodeagent: {kubeProxyHealth: \"http://127.0.0.1:9879/healthz\"}", "DaemonSet lbnodeagent", []string{
			"name: PURELB_KUBE_PROXY_HEALTH\n          value: http://127.0.0.1:9879/healthz",
		}},
		{"agent and speaker reach the API server by its Service", "", "DaemonSet lbnodeagent", []string{"!KUBERNETES_SERVICE_HOST"}},
		{"agent and speaker can reach it elsewhere", "lbnodeagent: {apiServer: {host: localhost, port: 7445}}", "DaemonSet lbnodeagent", []string{
			"name: KUBERNETES_SERVICE_HOST\n          value: localhost\n        - name: KUBERNETES_SERVICE_PORT\n          value: \"7445\"\n        - name: PURELB_GOSSIP",
			"name: KUBERNETES_SERVICE_HOST\n          value: localhost\n        - name: KUBERNETES_SERVICE_PORT\n          value: \"7445\"\n        - name: K8GOBGP",
		}},
		{"addresses need not have metrics of their own", "lbnodeagent: {maxAddressMetrics: 0}", "DaemonSet lbnodeagent", []string{"name: PURELB_MAX_ADDRESS_METRICS\n          value: \"0\""}},
		{"the Go runtime knows the memory limit of the allocator", "", "Deployment allocator", []string{memoryLimit}},
		{"the Go runtime knows the memory limits of the agent and the speaker", "", "DaemonSet lbnodeagent", []string{
			memoryLimit + "\n        - name: PURELB_NAMESPACE", memoryLimit + "\n        - name: NODE_NAME",
		}},
		{"the limit of the Go runtime can be another", "allocator: {extraEnv: [{name: GOMEMLIMIT, value: 99MiB}]}", "Deployment allocator", []string{"!MEMORY_LIMIT_MIB", "value: 99MiB"}},
		{"lease times", "leaseConfig: {leaseDuration: 1m4s, renewDeadline: 40s}", "DaemonSet lbnodeagent", []string{"name: PURELB_LEASE_DURATION\n          value: 1m4s", "name: PURELB_RETRY_PERIOD\n          value: 2s"}},
		{"agents gossip at the address of their node", "", "DaemonSet lbnodeagent", []string{
			"name: PURELB_GOSSIP_ADDRESS\n          valueFrom:\n            fieldRef:\n              fieldPath: status.hostIP",
			"name: PURELB_GOSSIP_PORT\n          value: \"7934\"",
			"name: PURELB_GOSSIP_SECRET\n          value: purelb-gossip",
			"name: PURELB_GOSSIP_PATIENCE\n          value: 400ms",
		}},
		{"nodes may pause for longer", "gossip: {patience: 2s}", "DaemonSet lbnodeagent", []string{"name: PURELB_GOSSIP_PATIENCE\n          value: 2s"}},
		{"the port and the key of the gossip can be others", "gossip: {port: 17934, secretName: mine}", "DaemonSet lbnodeagent", []string{"value: \"17934\"", "containerPort: 17934", "value: mine"}},
		{"the allocator makes the key of the gossip", "gossip: {secretName: mine}", "Deployment allocator", []string{"name: PURELB_GOSSIP_SECRET\n          value: mine"}},
		{"a priority class is for all pods", "priorityClassName: mine", "DaemonSet lbnodeagent", []string{"priorityClassName: mine", "!system-node-critical"}},
		{"a priority class is for the allocator too", "priorityClassName: mine", "Deployment allocator", []string{"priorityClassName: mine"}},
		{"both pods use the credentials of the registry", "imagePullSecrets: [{name: mine}]", "DaemonSet lbnodeagent", []string{"imagePullSecrets:\n      - name: mine", "terminationGracePeriodSeconds: 15"}},
		{"no kubelet evicts an agent when the node runs out of memory or disk", "", "DaemonSet lbnodeagent", []string{"priorityClassName: system-node-critical"}},
		{"a cluster that refuses that class can do without", "lbnodeagent: {priorityClassName: \"\"}", "DaemonSet lbnodeagent", []string{"!priorityClassName"}},
		{"the allocator can go to another node", "", "Deployment allocator", []string{"!priorityClassName"}},
		{"the default LBNodeAgent", "", "LBNodeAgent default", []string{"dummyInterface: kube-lb0", "localInterface: default"}},
		{"the names of the chart of the first API still work", "lbnodeagent: {localint: enp1s0, extlbint: lb0, sendgarp: false, podSecurityPolicy: {enabled: true}}", "LBNodeAgent default", []string{
			"localInterface: enp1s0",
			"dummyInterface: lb0",
			"sendgarp: false",
		}},
		{"all that an LBNodeAgent can say", "lbnodeagent: {interfaces: [eth1], garpConfig: {count: 5}, addressConfig: {localInterface: {validLifetime: 120}}}", "LBNodeAgent default", []string{
			"interfaces:\n    - eth1",
			"count: 5",
			"validLifetime: 120",
		}},
		{"further LBNodeAgents", "lbnodeagent: {agents: [{name: storage, spec: {nodeSelector: {matchLabels: {rack: storage}}, local: {localInterface: bond0}}}]}", "LBNodeAgent storage", []string{
			"namespace: purelb-system",
			"rack: storage",
			"localInterface: bond0",
		}},
		{"a ServiceGroup to begin with", "serviceGroup: {create: true, name: first, spec: {local: {v4pool: {subnet: 192.168.1.0/24, pool: 192.168.1.200-192.168.1.230}}}}", "ServiceGroup first", []string{
			"pool: 192.168.1.200-192.168.1.230",
			"namespace: purelb-system",
		}},
		{"a headless Service for Prometheus", "Prometheus: {allocator: {Metrics: {enabled: true}}}", "Service allocator-metrics", []string{"clusterIP: None", "component: allocator", "port: 7472"}},
		{"a ServiceMonitor", "Prometheus: {lbnodeagent: {serviceMonitor: {enabled: true, extraLabels: {release: prometheus}}}}", "ServiceMonitor lbnodeagent", []string{"release: prometheus", "honorLabels: true", "port: monitoring"}},
		{"rules for alerts can be in another namespace", "Prometheus: {allocator: {prometheusRules: {enabled: true, namespace: monitoring}}}", "PrometheusRule allocator", []string{
			"namespace: monitoring",
			"PureLBPoolAlmostExhausted",
			"{{ $labels.pool }}",
		}},
		{"the speaker is of the same release", "image: {repository: registry.example.org/lb, tag: abc}", "DaemonSet lbnodeagent", []string{
			"image: registry.example.org/lb/k8gobgp:abc",
			"containerPort: 7473",
			"containerPort: 7474",
		}},
		{"what a speaker is asked and told has the names of old", "", "DaemonSet lbnodeagent", []string{"name: k8gobgp", "- name: NODE_NAME", "- name: POD_NAME", "- name: POD_NAMESPACE", "path: /healthz\n            port: bgp-health"}},
		{"a BGPConfiguration to begin with", "gobgp: {configuration: {create: true, spec: {global: {asn: 65001}}}}", "BGPConfiguration default", []string{"namespace: purelb-system", "asn: 65001"}},
		{"a headless Service for the metrics of the speakers", "Prometheus: {k8gobgp: {serviceMonitor: {enabled: true}}}", "Service purelb-k8gobgp-metrics", []string{
			"clusterIP: None",
			"component: lbnodeagent",
			"port: 7473",
			"targetPort: bgp-monitoring",
		}},
		{"a ServiceMonitor finds it", "Prometheus: {k8gobgp: {serviceMonitor: {enabled: true}}}", "ServiceMonitor k8gobgp", []string{"matchLabels:\n      app: purelb\n      component: k8gobgp"}},
		{"templates in further objects are rendered", "extraObjects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: \"of-{{ .Release.Name }}\"}}]", "ConfigMap of-purelb", []string{"kind: ConfigMap"}},
		{"values of older charts that do nothing any more", "fullnameOverride: lb\nmemberlistSecretKey: abc\ngobgp: {enabled: true, image: {tag: 0.2.4}}", "Deployment allocator", []string{"name: allocator"}},
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
				not := strings.HasPrefix(want, "!")
				if strings.Contains(string(text), strings.TrimPrefix(want, "!")) == not {
					t.Errorf("want %q in\n%s", want, text)
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
		{"a field of the ServiceGroup that is misspelt", "serviceGroup: {create: true, spec: {lokal: {}}}", "at '/serviceGroup/spec': additional properties 'lokal' not allowed"},
		{"a field of the BGPConfiguration that is misspelt", "gobgp: {configuration: {create: true, spec: {global: {asn: 1}, neighbours: []}}}", "at '/gobgp/configuration/spec': additional properties 'neighbours' not allowed"},
		{"a BGPConfiguration without an ASN", "gobgp: {configuration: {create: true, spec: {global: {}}}}", "at '/gobgp/configuration/spec/global': missing property 'asn'"},
		{"a field of an LBNodeAgent that is misspelt", "lbnodeagent: {agents: [{name: a, spec: {local: {localInterfaces: eth0}}}]}", "at '/lbnodeagent/agents/0/spec/local': additional properties 'localInterfaces' not allowed"},
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
		{"one account for programs with different rights", "{allocator: {serviceAccount: {name: one}}, lbnodeagent: {serviceAccount: {name: one}}}", "allocator.serviceAccount.name and lbnodeagent.serviceAccount.name are both one"},
		{"a label that no object can have", "commonLabels: {team: a b}", "team"},
		{"an older name beside the new one", "lbnodeagent: {localint: eth0, localInterface: eth1}", `lbnodeagent.localInterface is "eth1", but lbnodeagent.localint, its older name, is "eth0". Remove lbnodeagent.localint.`},
		{"an older name that says the opposite", "lbnodeagent: {sendgarp: true, garpConfig: {enabled: false}}", "lbnodeagent.garpConfig.enabled is false, but lbnodeagent.sendgarp, its older name, is true. Remove lbnodeagent.sendgarp."},
		{"a label by which objects find the pods", "lbnodeagent: {podLabels: {app: mine}}", "at '/lbnodeagent/podLabels/app'"},
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
	d := apitest.As[appsv1.Deployment](t, objects["Deployment allocator"]).Spec
	ds := apitest.As[appsv1.DaemonSet](t, objects["DaemonSet lbnodeagent"]).Spec
	for _, tt := range []struct {
		name          string
		selector, pod map[string]string
	}{
		{"Deployment", d.Selector.MatchLabels, d.Template.Labels},
		{"DaemonSet", ds.Selector.MatchLabels, ds.Template.Labels},
		{"metrics of the allocator", apitest.As[corev1.Service](t, objects["Service allocator-metrics"]).Spec.Selector, d.Template.Labels},
		{"metrics of the agents", apitest.As[corev1.Service](t, objects["Service lbnodeagent-metrics"]).Spec.Selector, ds.Template.Labels},
		{"metrics of the speakers", apitest.As[corev1.Service](t, objects["Service purelb-k8gobgp-metrics"]).Spec.Selector, ds.Template.Labels},
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
	d := apitest.As[appsv1.Deployment](t, mustRender(t, "allocator: {tolerationSeconds: null}")["Deployment allocator"])
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
