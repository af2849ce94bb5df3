package router

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Forget deletes the neighbor entries of an address in the network namespace at path, so that the next
// packet asks the segment. The entries of a lab's router do not age: TCP of a client confirms them, because
// the mark of the confirmation travels with the packet from namespace to namespace.
func Forget(path string, a netip.Addr) error {
	handle, err := open(path)
	if err != nil {
		return err
	}
	defer handle.Close()
	all, err := handle.NeighList(0, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("list neighbors: %w", err)
	}
	for i := range all {
		if have, _ := netip.AddrFromSlice(all[i].IP); have.Unmap() != a {
			continue
		}
		if err := handle.NeighDel(&all[i]); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("delete the neighbor %s: %w", a, err)
		}
	}
	return nil
}

// Neighbors returns the Ethernet addresses that the network namespace at path has in its neighbor table.
func Neighbors(path string) (map[netip.Addr]string, error) {
	handle, err := open(path)
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	all, err := handle.NeighList(0, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list neighbors: %w", err)
	}
	macs := map[netip.Addr]string{}
	for _, n := range all {
		if a, ok := netip.AddrFromSlice(n.IP); ok && len(n.HardwareAddr) > 0 {
			macs[a.Unmap()] = n.HardwareAddr.String()
		}
	}
	return macs, nil
}
