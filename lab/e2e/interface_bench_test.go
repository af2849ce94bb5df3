package e2e

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// landings are the times at which addresses were added to interfaces of nodes, by the messages of the
// nodes' kernels.
type landings struct {
	seen chan landing
	at   map[netip.Addr][]time.Time
}

type landing struct {
	address netip.Addr
	at      time.Time
}

// interfaces follows the addresses on the links with this name on all nodes until the test ends.
func (w *world) interfaces(link string) *landings {
	w.t.Helper()
	l := &landings{seen: make(chan landing, 1024), at: map[netip.Addr][]time.Time{}}
	done := make(chan struct{})
	w.t.Cleanup(func() { close(done) })
	for _, n := range lab.Nodes() {
		if err := l.follow(lab.Netns(n.Name), link, done); err != nil {
			w.t.Fatalf("follow the addresses of %s: %v", n.Name, err)
		}
	}
	return l
}

func (l *landings) follow(path, link string, done chan struct{}) error {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	handle, err := netlink.NewHandleAt(ns)
	if err != nil {
		return err
	}
	defer handle.Close()
	at, err := handle.LinkByName(link)
	if err != nil {
		return fmt.Errorf("find %s: %w", link, err)
	}
	updates := make(chan netlink.AddrUpdate, 1024)
	if err := netlink.AddrSubscribeWithOptions(updates, done, netlink.AddrSubscribeOptions{Namespace: &ns, ReceiveBufferSize: 4 << 20}); err != nil {
		return err
	}
	go func() {
		for u := range updates {
			if a, ok := netip.AddrFromSlice(u.LinkAddress.IP); ok && u.NewAddr && u.LinkIndex == at.Attrs().Index {
				l.seen <- landing{a.Unmap(), time.Now()}
			}
		}
	}()
	return nil
}

// await waits until an address is on n interfaces. It returns the times in order.
func (l *landings) await(b *testing.B, a netip.Addr, n int) []time.Time {
	b.Helper()
	limit := time.After(time.Minute)
	for len(l.at[a]) < n {
		select {
		case next := <-l.seen:
			l.at[next.address] = append(l.at[next.address], next.at)
		case <-limit:
			b.Fatalf("after a minute %s is on %d interfaces", a, len(l.at[a]))
		}
	}
	return l.at[a][:n]
}
