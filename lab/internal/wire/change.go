package wire

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"purelb.io/purelb/lab/internal/topology"
)

// Port is the name of the port in the switch to which a machine's interface is connected.
func Port(machine, nic string) string { return machine + "-" + nic }

// SetPort turns a port of the switch on or off. While the port is off, the machine has no carrier.
func (w Net) SetPort(machine, nic string, up bool) error {
	return w.with(Switch, func(h *netlink.Handle) error {
		port, err := h.LinkByName(Port(machine, nic))
		if err != nil {
			return fmt.Errorf("port of %s %s: %w", machine, nic, err)
		}
		if up {
			return h.LinkSetUp(port)
		}
		return h.LinkSetDown(port)
	})
}

// Unplug removes a machine's cables. Missing cables are no error.
func (w Net) Unplug(machine string, nics []topology.NIC) error {
	return w.with(Switch, func(h *netlink.Handle) error {
		for _, n := range nics {
			port, err := h.LinkByName(Port(machine, n.Name))
			if errors.As(err, &netlink.LinkNotFoundError{}) {
				continue
			}
			if err != nil {
				return err
			}
			if err := h.LinkDel(port); err != nil {
				return fmt.Errorf("port of %s %s: %w", machine, n.Name, err)
			}
		}
		return nil
	})
}

func routes(h *netlink.Handle, rs []topology.Route) error {
	for _, r := range rs {
		if err := h.RouteReplace(&netlink.Route{Dst: ipnet(r.To), Gw: r.Via.AsSlice(), Protocol: unix.RTPROT_BOOT}); err != nil {
			return fmt.Errorf("route to %s via %s: %w", r.To, r.Via, err)
		}
	}
	return nil
}

func ipnet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// set writes a kernel setting in the namespace of the calling thread.
func set(key, value string) error {
	return os.WriteFile(filepath.Join("/proc/sys", strings.ReplaceAll(key, ".", "/")), []byte(value), 0o644)
}
