package agent

import (
	"context"
	"net/netip"

	"purelb.io/purelb/internal/announce"
)

// serviceAddresses returns a function that reads the addresses that this node has only for
// Services. Metrics, probes and the state are not served there.
func serviceAddresses(kernel Kernel) func(context.Context) (map[netip.Addr]bool, error) {
	return func(ctx context.Context) (map[netip.Addr]bool, error) {
		all, err := kernel.Addresses(ctx)
		if err != nil {
			return nil, err
		}
		return announce.ForServices(all), nil
	}
}
