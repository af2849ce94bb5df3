package router

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// AddressWatch follows the addresses on the interfaces of a network namespace.
type AddressWatch struct {
	done chan struct{}
	mu   sync.Mutex
	seen []netip.Addr
	err  error
}

// FollowAddresses starts to follow the addresses of the network namespace at path. It begins with
// the current addresses.
func FollowAddresses(path string) (*AddressWatch, error) {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return nil, fmt.Errorf("open network namespace %s: %w", path, err)
	}
	defer ns.Close()
	w := &AddressWatch{done: make(chan struct{})}
	updates := make(chan netlink.AddrUpdate, 1024)
	err = netlink.AddrSubscribeWithOptions(updates, w.done, netlink.AddrSubscribeOptions{
		Namespace: &ns, ListExisting: true, ReceiveBufferSize: 4 << 20, ReceiveBufferForceSize: true,
		ErrorCallback: func(err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.err = err
		},
	})
	if err != nil {
		return nil, fmt.Errorf("follow addresses: %w", err)
	}
	go func() {
		for u := range updates {
			w.record(u)
		}
	}()
	return w, nil
}

func (w *AddressWatch) record(u netlink.AddrUpdate) {
	a := prefix(&u.LinkAddress).Addr()
	w.mu.Lock()
	defer w.mu.Unlock()
	if u.NewAddr && !slices.Contains(w.seen, a) {
		w.seen = append(w.seen, a)
	}
}

// Seen returns the addresses that an interface has had so far. If the kernel lost messages, Seen
// returns an error, because the result may lack an address.
func (w *AddressWatch) Seen() ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return nil, fmt.Errorf("follow addresses: %w", w.err)
	}
	return slices.Clone(w.seen), nil
}

// Stop ends the watch.
func (w *AddressWatch) Stop() { close(w.done) }
