package announce

import "net/netip"

// ForServices returns the addresses that a node has only for Services: the addresses with the
// mark, and the addresses of kube-proxy. A kernel without marks shows only those of kube-proxy.
func ForServices(addresses []Address) map[netip.Addr]bool {
	services, own := map[netip.Addr]bool{}, map[netip.Addr]bool{}
	for _, a := range addresses {
		if a.Mark == Mark || a.Link == ipvsLink {
			services[a.Prefix.Addr()] = true
		} else {
			own[a.Prefix.Addr()] = true
		}
	}
	for ip := range own {
		delete(services, ip)
	}
	return services
}
