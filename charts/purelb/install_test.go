package chart

import (
	"strings"
	"testing"

	"purelb.io/purelb/internal/testing/apitest"
)

// everything sets what the chart can make of its own kinds.
const everything = `
priorityClassName: system-node-critical
imagePullSecrets: [{name: registry}]
allocator:
  replicas: 2
  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0}}
  nodeSelector: {role: infra}
  tolerations: [{operator: Exists}]
  podAnnotations: {example.org/team: net}
  networkPolicy: {enabled: true}
  extraContainers: [{name: log, image: registry.example.org/log}]
  ipam:
    containers: [{name: ipam, image: registry.example.org/ipam, volumeMounts: [{name: state, mountPath: /state}]}]
    volumes: [{name: state, persistentVolumeClaim: {claimName: ipam}}]
lbnodeagent:
  host: node
  extraVolumes: [{name: spare, emptyDir: {}}]
  localInterface: en(p3|p4)s0
  interfaces: [eth1, eth2]
  garpConfig: {enabled: true, initialDelay: 0s, count: 5, interval: 1s, verifyBeforeSend: false}
  addressConfig:
    localInterface: {validLifetime: 120, preferredLifetime: 60, noPrefixRoute: true}
    dummyInterface: {validLifetime: 0}
  agents:
  - {name: storage, spec: {nodeSelector: {matchLabels: {rack: storage}}, local: {localInterface: bond0}}}
serviceGroup:
  create: true
  spec: {local: {v4pools: [{subnet: 192.168.1.0/24, pool: 192.168.1.200-192.168.1.230}]}}
Prometheus:
  allocator: {Metrics: {enabled: true}}
  lbnodeagent: {Metrics: {enabled: true}}
  k8gobgp: {Metrics: {enabled: true}}
gobgp:
  nativeSidecar: false
  image: {tag: 0.2.4}
  configuration:
    create: true
    spec:
      global: {asn: 65001}
      neighbors: [{config: {neighborAddress: 192.168.1.1, peerAsn: 65000}}]
`

func TestItInstallsAndUpgrades(t *testing.T) {
	server := apitest.Start(t)
	run := func(args ...string) string {
		t.Helper()
		out, warnings, err := helm(t, append(args, "--namespace", "purelb-system", "--kubeconfig", server.Kubeconfig)...)
		if err != nil {
			t.Fatal(err)
		}
		if warnings != "" {
			t.Errorf("helm %s warns:\n%s", args[0], warnings)
		}
		return out
	}
	out := run("install", "purelb", ".", "--create-namespace")
	for _, want := range []string{
		"kind: ServiceGroup", "kind: BGPConfiguration", "set image.repository and image.tag to images that you have pushed",
		"kubectl label namespace purelb-system pod-security.kubernetes.io/enforce=privileged",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the notes do not contain %q:\n%s", want, out)
		}
	}
	out = run("upgrade", "purelb", ".", "--values", file(t, everything))
	for _, want := range []string{"list these in the value gobgp.passwordSecrets", "gobgp.image (the speaker has the version of the other programs)"} {
		if !strings.Contains(out, want) {
			t.Errorf("the notes do not contain %q:\n%s", want, out)
		}
	}
	run("upgrade", "purelb", ".", "--reset-values")
	run("uninstall", "purelb", "--no-hooks") // no node runs the Job that removes finalizers
}
