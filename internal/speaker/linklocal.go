package speaker

import (
	"context"
	"net/netip"
	"sync"

	"purelb.io/purelb/internal/peering"
)

// findLinkLocal returns the addresses of the neighbors on unnumbered links that the kernel
// knows.
func findLinkLocal(ctx context.Context, kernel Kernel, state peering.State) map[string]netip.Addr {
	var all sync.WaitGroup
	var mu sync.Mutex
	found := map[string]netip.Addr{}
	for _, p := range state.Peers {
		if p.Interface == "" || p.AdminDown {
			continue
		}
		all.Go(func() {
			// A neighbor that is not found here is missing for the server too, and the server
			// reports it.
			if address, ok, err := kernel.LinkLocalNeighbor(ctx, p.Interface); ok && err == nil {
				mu.Lock()
				defer mu.Unlock()
				found[p.Interface] = address
			}
		})
	}
	all.Wait()
	return found
}

// keepLinkLocal adds known neighbors that are not found now to found. When a link fails, the
// kernel forgets its neighbors at once. Only BFD and the hold timer decide whether they are
// gone.
func keepLinkLocal(found, known map[string]netip.Addr, state peering.State) {
	for _, p := range state.Peers {
		address, was := known[p.Interface]
		if _, is := found[p.Interface]; p.Interface != "" && !p.AdminDown && was && !is {
			found[p.Interface] = address
		}
	}
}
