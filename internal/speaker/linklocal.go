package speaker

import (
	"context"
	"net/netip"
	"sync"

	"purelb.io/purelb/internal/peering"
)

// findLinkLocal has the neighbours on unnumbered links found. The server finds
// those that the kernel knows.
func findLinkLocal(ctx context.Context, kernel Kernel, state peering.State) map[string]netip.Addr {
	var all sync.WaitGroup
	var mu sync.Mutex
	found := map[string]netip.Addr{}
	for _, p := range state.Peers {
		if p.Interface == "" || p.AdminDown {
			continue
		}
		all.Go(func() {
			// Who is not found is not there for the server either, which says so.
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

// keepLinkLocal adds to found who was known and is not found at this time. When a
// link fails the kernel forgets its neighbours at once; whether they are gone is
// for BFD and the hold timer to say.
func keepLinkLocal(found, known map[string]netip.Addr, state peering.State) {
	for _, p := range state.Peers {
		address, was := known[p.Interface]
		if _, is := found[p.Interface]; p.Interface != "" && !p.AdminDown && was && !is {
			found[p.Interface] = address
		}
	}
}
