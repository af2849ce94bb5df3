package kube

import (
	"context"
	"net/netip"

	"purelb.io/purelb/lab/internal/topology"
)

// The Service of the DNS server has the name that clients and tests of Kubernetes know.
const (
	dnsNamespace = "kube-system"
	dnsName      = "kube-dns"
)

var dnsPorts = []object{
	{"name": "dns", "protocol": "UDP", "port": 53},
	{"name": "dns-tcp", "protocol": "TCP", "port": 53},
}

// PutDNS makes the Service of the DNS server on a machine, with its EndpointSlices, unless they
// exist. A new API server refuses Services until it has set up their addresses.
func (c *Client) PutDNS(ctx context.Context, p topology.Plan, server topology.Machine) error {
	namespace := object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": dnsNamespace}}
	if err := c.create(ctx, "/api/v1/namespaces", namespace); err != nil {
		return err
	}
	if err := c.create(ctx, "/api/v1/namespaces/"+dnsNamespace+"/services", dnsService(p)); err != nil {
		return err
	}
	for _, f := range p.World.Families {
		a := server.V4()
		if f == topology.IPv6 {
			a = server.V6()
		}
		if err := c.create(ctx, "/apis/discovery.k8s.io/v1/namespaces/"+dnsNamespace+"/endpointslices", dnsEndpoints(a)); err != nil {
			return err
		}
	}
	return nil
}

// dnsService has no selector, because its server is a program of a machine, not a pod.
func dnsService(p topology.Plan) object {
	addresses, policy := p.DNS(), "SingleStack"
	if len(addresses) > 1 {
		policy = "RequireDualStack"
	}
	return object{
		"apiVersion": "v1", "kind": "Service",
		"metadata": object{"name": dnsName, "namespace": dnsNamespace, "labels": object{"k8s-app": dnsName}},
		"spec": object{
			"clusterIP": addresses[0], "clusterIPs": addresses, "ipFamilyPolicy": policy, "ports": dnsPorts,
		},
	}
}

func dnsEndpoints(server netip.Addr) object {
	family, suffix := "IPv4", "-v4"
	if server.Is6() {
		family, suffix = "IPv6", "-v6"
	}
	return object{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
		"metadata": object{
			"name": dnsName + suffix, "namespace": dnsNamespace,
			"labels": object{"kubernetes.io/service-name": dnsName, "endpointslice.kubernetes.io/managed-by": "purelb-lab"},
		},
		"endpoints": []object{{"addresses": []netip.Addr{server}, "conditions": object{"ready": true}}},
		"ports":     dnsPorts,
	}
}
