package routing

import (
	"context"
	"net/netip"
)

// ipvsLink is where kube-proxy in IPVS mode keeps the addresses of all Services.
const ipvsLink = "kube-ipvs0"

// ServiceAddresses returns the addresses that this node has only for Services. On a kernel
// without marks these are only those of kube-proxy.
func (k *Kernel) ServiceAddresses(ctx context.Context) (map[netip.Addr]bool, error) {
	ipvs, found, err := k.link(ctx, ipvsLink)
	if err != nil {
		return nil, err
	}
	all, err := k.addresses(ctx, patience, 0)
	if err != nil {
		return nil, err
	}
	services, own := map[netip.Addr]bool{}, map[netip.Addr]bool{}
	for _, h := range all {
		if h.service || found && h.link == ipvs.index {
			services[h.prefix.Addr()] = true
		} else {
			own[h.prefix.Addr()] = true
		}
	}
	for ip := range own {
		delete(services, ip)
	}
	return services, nil
}
