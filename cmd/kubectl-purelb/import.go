package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"purelb.io/purelb/internal/explain/importer"
	"purelb.io/purelb/internal/nodes/lease"
)

// newImport makes the commands that translate the configuration of other load balancers.
func newImport(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use: "import", Short: "Translate the configuration of another load balancer", Args: noArguments, RunE: help,
		Example: "  kubectl purelb import metallb",
	}
	cmd.AddCommand(newImportMetalLB(o))
	return cmd
}

func newImportMetalLB(o *options) *cobra.Command {
	var subnets []string
	cmd := &cobra.Command{
		Use: "metallb", Short: "Translate the configuration of MetalLB", Args: noArguments,
		Long: `Translate MetalLB's pools, advertisements, peers, BFD profiles and communities into
ServiceGroups of the same names, an LBNodeAgent and a BGPConfiguration, and the
annotations of Services into those of PureLB. The answer is a manifest. Its comments say
what has no counterpart, which Secrets to copy, and how to annotate the Services. Nothing
is applied.

Pools of MetalLB have no subnet. PureLB takes it from --subnet, or from the nodes if its
agents run.`,
		Example: `  # of the cluster
  kubectl purelb import metallb

  # of files
  kubectl purelb import metallb -f overlays/ --subnet 192.168.1.0/24`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m := &importer.MetalLB{}
			for _, text := range subnets {
				n, err := netip.ParsePrefix(text)
				if err != nil {
					return fmt.Errorf("--subnet must be a network such as 192.168.1.0/24, and %q is none", text)
				}
				m.Networks = append(m.Networks, n)
			}
			read := o.metalLBOfCluster
			if len(o.files) > 0 {
				read = o.metalLBOfFiles
			}
			if err := read(cmd.Context(), m); err != nil {
				return err
			}
			if m.Empty() {
				return errors.New("there is no IPAddressPool and no BGPPeer of MetalLB")
			}
			text, err := m.Translate(*o.kube.Namespace).Manifest("MetalLB", "metallb")
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

// metalLBOfFiles reads MetalLB's objects, and Services, from files.
func (o *options) metalLBOfFiles(_ context.Context, m *importer.MetalLB) error {
	docs, err := o.documents()
	if err != nil {
		return err
	}
	for _, d := range docs {
		text, err := yaml.YAMLToJSONStrict(d.text)
		if err == nil {
			err = metalLBObject(m, text)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", d.file, d.line, err)
		}
	}
	return nil
}

// metalLBObject reads an object, or the items of a list.
func metalLBObject(m *importer.MetalLB, text []byte) error {
	var h head
	if err := json.Unmarshal(text, &h); err != nil {
		return err
	}
	for _, item := range h.Items {
		if err := metalLBObject(m, typed(item, h)); err != nil {
			return err
		}
	}
	if h.Kind == "Service" && h.APIVersion == "v1" {
		var svc corev1.Service
		if err := json.Unmarshal(text, &svc); err != nil {
			return err
		}
		m.Services = append(m.Services, svc)
		return nil
	}
	_, err := m.Read(text)
	return err
}

// metalLBKinds are the kinds of MetalLB to read, with their versions and plural names.
var metalLBKinds = []struct{ kind, version, plural string }{
	{"IPAddressPool", "v1beta1", "ipaddresspools"},
	{"L2Advertisement", "v1beta1", "l2advertisements"},
	{"BGPAdvertisement", "v1beta1", "bgpadvertisements"},
	{"BGPPeer", "v1beta2", "bgppeers"},
	{"BFDProfile", "v1beta1", "bfdprofiles"},
	{"Community", "v1beta1", "communities"},
}

// metalLBOfCluster reads MetalLB's objects, the Services, and the networks of the nodes from the cluster.
func (o *options) metalLBOfCluster(ctx context.Context, m *importer.MetalLB) error {
	c, err := o.newReader()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, k := range metalLBKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: importer.Group, Version: k.version, Kind: k.kind + "List"})
		if err := c.List(ctx, list); unserved(err) {
			continue // an older MetalLB does not have it
		} else if err != nil {
			return fmt.Errorf("list %s of MetalLB: %w", k.plural, err)
		}
		for _, item := range list.Items {
			text, err := item.MarshalJSON()
			if err != nil {
				return err
			}
			if _, err := m.Read(text); err != nil {
				return err
			}
		}
	}
	var services corev1.ServiceList
	if err := c.List(ctx, &services); err != nil {
		return fmt.Errorf("list Services: %w", err)
	}
	m.Services = services.Items
	var leases coordinationv1.LeaseList
	if err := c.List(ctx, &leases, client.InNamespace(c.namespace)); err != nil {
		return fmt.Errorf("list the Leases of PureLB: %w", err)
	}
	for i := range leases.Items {
		m.Networks = append(m.Networks, lease.Subnets(&leases.Items[i])...)
	}
	return nil
}
