// Flannel is the program of the world "flannel". It uses flannel's packages for VXLAN, for Nodes as
// leases, and for nftables. Flannel's own program also needs the SDK of a cloud, which the module
// proxy does not have, and a C compiler.
//
// The variable NODE_NAME names the node.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/flannel-io/flannel/pkg/backend"
	_ "github.com/flannel-io/flannel/pkg/backend/vxlan"
	"github.com/flannel-io/flannel/pkg/ip"
	"github.com/flannel-io/flannel/pkg/ipmatch"
	"github.com/flannel-io/flannel/pkg/subnet"
	"github.com/flannel-io/flannel/pkg/subnet/kube"
	"github.com/flannel-io/flannel/pkg/trafficmngr/nftables"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "`FILE` with the credentials for the API server")
	network := flag.String("network", "", "`FILE` with the configuration of the network")
	subnetFile := flag.String("subnet-file", "/run/flannel/subnet.env", "`FILE` that tells what this node uses")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *network, *subnetFile); err != nil {
		fmt.Fprintln(os.Stderr, "flannel:", err)
		os.Exit(1)
	}
}

// run serves the node until ctx is done. The prefix of the annotations is flannel's default.
func run(ctx context.Context, kubeconfig, network, subnetFile string) error {
	leases, err := kube.NewSubnetManager(ctx, "", kubeconfig, "flannel.alpha.coreos.com", network, true)
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	config, err := leases.GetNetworkConfig(ctx)
	if err != nil {
		return fmt.Errorf("read the network: %w", err)
	}
	var parts sync.WaitGroup
	defer parts.Wait()
	n, err := register(ctx, &parts, leases, config)
	if err != nil {
		return err
	}
	if err := filter(ctx, config, n); err != nil {
		return err
	}
	if err := leases.HandleSubnetFile(subnetFile, config, true, n.Lease().Subnet, n.Lease().IPv6Subnet, n.MTU()); err != nil {
		return fmt.Errorf("write %s: %w", subnetFile, err)
	}
	parts.Go(func() { n.Run(ctx) })
	if err := leases.CompleteLease(ctx, n.Lease(), &parts); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("complete the lease: %w", err)
	}
	return nil
}

// register creates the interfaces of the network on top of the interface of the default route, and
// publishes them.
func register(ctx context.Context, parts *sync.WaitGroup, leases subnet.Manager, config *subnet.Config) (backend.Network, error) {
	families, err := ipmatch.GetIPFamily(config.EnableIPv4, config.EnableIPv6)
	if err != nil {
		return nil, err
	}
	var public ipmatch.PublicIPOpts
	public.PublicIP, public.PublicIPv6 = leases.GetStoredPublicIP(ctx)
	under, err := ipmatch.LookupExtIface("", "", "", families, public)
	if err != nil {
		return nil, fmt.Errorf("find the interface of the default route: %w", err)
	}
	b, err := backend.NewManager(ctx, leases, under).GetBackend(config.BackendType)
	if err != nil {
		return nil, fmt.Errorf("backend %s: %w", config.BackendType, err)
	}
	n, err := b.RegisterNetwork(ctx, parts, config)
	if err != nil {
		return nil, fmt.Errorf("make the network: %w", err)
	}
	return n, nil
}

// filter accepts the packets of pods, and translates the source of those that leave the network of
// the pods.
func filter(ctx context.Context, config *subnet.Config, n backend.Network) error {
	rules := &nftables.NFTablesManager{}
	if err := rules.Init(ctx); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	err := rules.SetupAndEnsureMasqRules(ctx, config.Network, ip.IP4Net{}, ip.IP4Net{}, config.IPv6Network, ip.IP6Net{}, ip.IP6Net{}, n.Lease(), 0, false)
	if err != nil {
		return fmt.Errorf("rules of nftables: %w", err)
	}
	rules.SetupAndEnsureForwardRules(ctx, config.Network, config.IPv6Network, 0)
	return nil
}
