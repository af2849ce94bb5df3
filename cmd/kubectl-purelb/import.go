package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"purelb.io/purelb/internal/explain"
	"purelb.io/purelb/internal/explain/importer"
	"purelb.io/purelb/internal/nodes/lease"
)

// newImport makes the commands that translate the configuration of other load balancers.
func newImport(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use: "import", Short: "Translate the configuration of another load balancer", Args: noArguments, RunE: help,
		Example: "  kubectl purelb import metallb",
	}
	cmd.AddCommand(
		newImportOf(o, "metallb", "MetalLB", `Translate MetalLB's pools, advertisements, peers, BFD profiles and communities into
ServiceGroups of the same names, an LBNodeAgent and a BGPConfiguration, and the
annotations of Services into those of PureLB.`),
		newImportOf(o, "cilium", "Cilium", `Translate Cilium's CiliumLoadBalancerIPPools, CiliumL2AnnouncementPolicies and
CiliumBGPClusterConfigs with their peer configurations and advertisements into
ServiceGroups of the same names, an LBNodeAgent and a BGPConfiguration, and the
annotations of Services into those of PureLB.`),
		newImportOf(o, "kube-vip", "kube-vip", `Translate the ConfigMap kube-system/kubevip and the environment of kube-vip's pods in
kube-system into ServiceGroups, an LBNodeAgent and a BGPConfiguration, and the
annotations of Services into those of PureLB.`),
	)
	return cmd
}

func newImportOf(o *options, product, name, long string) *cobra.Command {
	var subnets []string
	cmd := &cobra.Command{
		Use: product, Short: "Translate the configuration of " + name, Args: noArguments,
		Long: long + ` The answer is a manifest. Its comments say what has no
counterpart, which Secrets to copy, and which annotations Services need. Nothing is
applied.

Pools have no subnet. PureLB takes it from --subnet, or from the nodes if its agents run.`,
		Example: fmt.Sprintf(`  # of the cluster
  kubectl purelb import %s

  # of files
  kubectl purelb import %[1]s -f overlays/ --subnet 192.168.1.0/24`, product),
		RunE: func(cmd *cobra.Command, _ []string) error {
			m := &importer.Source{}
			for _, text := range subnets {
				n, err := netip.ParsePrefix(text)
				if err != nil {
					return fmt.Errorf("--subnet must be a network such as 192.168.1.0/24, and %q is none", text)
				}
				m.Networks = append(m.Networks, n)
			}
			read := func() error { return o.foreignOfCluster(cmd.Context(), m, product) }
			if len(o.files) > 0 {
				read = func() error { return o.foreignOfFiles(m) }
			}
			if err := read(); err != nil {
				return err
			}
			r := m.Translate(product, cmp.Or(o.purelb, installNamespace))
			if len(r.Groups)+len(r.Remarks) == 0 && r.BGP == nil {
				return errors.New("there is no pool and no router of " + name)
			}
			text, err := r.Manifest(name, product)
			if err != nil {
				return err
			}
			_, err = o.out.Write(text)
			return err
		},
	}
	cmd.Flags().StringSliceVar(&subnets, "subnet", nil, "A network of the nodes, for the pools inside it")
	return cmd
}

// foreignOfFiles reads the objects of another load balancer, and Services, from files.
func (o *options) foreignOfFiles(m *importer.Source) error {
	docs, err := o.documents()
	if err != nil {
		return err
	}
	for _, d := range docs {
		text, err := yaml.YAMLToJSONStrict(d.text)
		if err == nil {
			err = foreignObject(m, text)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", d.file, d.line, err)
		}
	}
	return nil
}

// foreignObject reads an object, or the items of a list.
func foreignObject(m *importer.Source, text []byte) error {
	var h head
	if err := json.Unmarshal(text, &h); err != nil {
		return err
	}
	for _, item := range h.Items {
		if err := foreignObject(m, typed(item, h)); err != nil {
			return err
		}
	}
	return m.Read(text)
}

// foreignKind is a kind of a product that is another load balancer.
type foreignKind struct {
	schema.GroupVersionKind
	product string
	scope   meta.RESTScope
}

// foreignKinds are the kinds to read. Of a kind in two versions, the first that is served is read.
var foreignKinds = slices.Concat(
	foreign("metallb", meta.RESTScopeNamespace, importer.Group, "v1beta1", "IPAddressPool", "L2Advertisement", "BGPAdvertisement", "BFDProfile", "Community"),
	foreign("metallb", meta.RESTScopeNamespace, importer.Group, "v1beta2", "BGPPeer"),
	foreign("cilium", meta.RESTScopeRoot, "cilium.io", "v2", "CiliumLoadBalancerIPPool", "CiliumL2AnnouncementPolicy", "CiliumBGPClusterConfig", "CiliumBGPPeerConfig", "CiliumBGPAdvertisement"),
	foreign("cilium", meta.RESTScopeRoot, "cilium.io", "v2alpha1", "CiliumLoadBalancerIPPool", "CiliumL2AnnouncementPolicy", "CiliumBGPClusterConfig", "CiliumBGPPeerConfig", "CiliumBGPAdvertisement", "CiliumBGPPeeringPolicy"),
	foreign("kube-vip", meta.RESTScopeNamespace, "", "v1", "ConfigMap", "Pod"),
)

func foreign(product string, scope meta.RESTScope, group, version string, names ...string) (all []foreignKind) {
	for _, name := range names {
		all = append(all, foreignKind{schema.GroupVersionKind{Group: group, Version: version, Kind: name}, product, scope})
	}
	return all
}

// foreignOfCluster reads the objects of a product, the Services, and the networks of the nodes from the cluster.
func (o *options) foreignOfCluster(ctx context.Context, m *importer.Source, product string) error {
	c, err := o.newReader()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c.find(ctx)
	o.purelb = c.namespace
	served := map[string]bool{}
	for _, k := range foreignKinds {
		if k.product != product || served[k.Kind] {
			continue
		}
		var of []client.ListOption
		if k.Group == "" { // kube-vip runs there
			of = append(of, client.InNamespace("kube-system"))
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(k.GroupVersion().WithKind(k.Kind + "List"))
		if err := c.List(ctx, list, of...); unserved(err) {
			continue // an older version of the product does not have it
		} else if err != nil {
			return fmt.Errorf("list objects of kind %s: %w", k.Kind, err)
		}
		served[k.Kind] = true
		for _, item := range list.Items {
			text, err := item.MarshalJSON()
			if err != nil {
				return err
			}
			if err := m.Read(text); err != nil {
				return err
			}
		}
	}
	var f inventory
	if err := kindOf(explain.KindServices).read(ctx, c, &f); err != nil {
		return fmt.Errorf("list Services: %w", err)
	}
	if err := kindOf(explain.KindLeases).read(ctx, c, &f, client.InNamespace(c.namespace)); err != nil {
		return fmt.Errorf("list the Leases of PureLB: %w", err)
	}
	m.Services = f.Services
	for i := range f.Leases {
		m.Networks = append(m.Networks, lease.Subnets(&f.Leases[i])...)
	}
	return nil
}
