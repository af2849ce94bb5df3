package spec

import (
	"fmt"
	"strings"

	"purelb.io/purelb/lab/internal/topology"
)

// Node returns the Node object of a machine, which its kubelet adopts. Only the pod ranges are unknown to
// the kubelet. The controllers of Kubernetes set the same annotation on each node. Without any annotation
// on a node, flannel ends.
func Node(m topology.Machine) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Node
metadata:
  name: %[1]s
  annotations: {node.alpha.kubernetes.io/ttl: "0"}
  labels: {kubernetes.io/hostname: %[1]s, kubernetes.io/os: linux, topology.kubernetes.io/zone: %[2]s}
spec: {podCIDR: %[3]q, podCIDRs: %[4]s}
`, m.Name, m.NICs[0].Segment, m.Pods[0], jsonOf(m.Pods))
}

// DNS returns the Service of the DNS server, with its EndpointSlices. It has the name that clients and
// tests of Kubernetes know. It has no selector, because its server is a program of a machine, not a pod.
func (l Lab) DNS() string {
	const ports = `[{name: dns, protocol: UDP, port: 53}, {name: dns-tcp, protocol: TCP, port: 53}]`
	addresses, policy := l.Plan.DNS(), "SingleStack"
	if len(addresses) > 1 {
		policy = "RequireDualStack"
	}
	var b strings.Builder
	fmt.Fprintf(&b, `
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec: {clusterIP: %q, clusterIPs: %s, ipFamilyPolicy: %s, ports: %s}
`, addresses[0], jsonOf(addresses), policy, ports)
	server, _ := l.Plan.Machine(topology.ControlPlane)
	for _, f := range l.Plan.World.Families {
		family, suffix, a := "IPv4", "v4", server.V4()
		if f == topology.IPv6 {
			family, suffix, a = "IPv6", "v6", server.V6()
		}
		fmt.Fprintf(&b, `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: kube-dns-%s
  namespace: kube-system
  labels: {kubernetes.io/service-name: kube-dns, endpointslice.kubernetes.io/managed-by: purelb-lab}
addressType: %s
endpoints: [{addresses: [%q], conditions: {ready: true}}]
ports: %s
`, suffix, family, a, ports)
	}
	return b.String()
}
