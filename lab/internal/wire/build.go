package wire

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"purelb.io/purelb/lab/internal/topology"
)

// BuildSwitch makes the switch, with a bridge for every segment.
func (w Net) BuildSwitch() error {
	if err := w.create(Switch); err != nil {
		return err
	}
	return w.with(Switch, func(h *netlink.Handle) error {
		for _, s := range topology.Segments {
			if err := w.bridge(h, s.Name); err != nil {
				return fmt.Errorf("bridge %s: %w", s.Name, err)
			}
		}
		return In(w.Netns(Switch), quietSwitch)
	})
}

func (w Net) bridge(h *netlink.Handle, name string) error {
	snooping := false
	b := &netlink.Bridge{LinkAttrs: attrs(name), MulticastSnooping: &snooping}
	if err := h.LinkAdd(b); err != nil {
		return err
	}
	if err := In(w.Netns(Switch), func() error { return set("net.ipv6.conf."+name+".disable_ipv6", "1") }); err != nil {
		return err
	}
	return h.LinkSetUp(b)
}

// quietSwitch makes the packet filter ignore frames that only pass a bridge. Otherwise, if
// kube-proxy translates the destination of such a frame, the kernel would send the frame back
// through the port that it came from, and drop it there.
func quietSwitch() error {
	files, err := filepath.Glob("/proc/sys/net/bridge/bridge-nf-call-*")
	for _, f := range files {
		err = errors.Join(err, os.WriteFile(f, []byte("0"), 0o644))
	}
	return err
}

// BuildMachine makes a machine's namespace, and connects it to the switch.
func (w Net) BuildMachine(m topology.Machine) error {
	if err := w.create(m.Name); err != nil {
		return err
	}
	if err := In(w.Netns(m.Name), func() error { return configure(m) }); err != nil {
		return fmt.Errorf("kernel settings of %s: %w", m.Name, err)
	}
	for _, n := range m.NICs {
		if err := w.plug(m.Name, n); err != nil {
			return fmt.Errorf("%s %s: %w", m.Name, n.Name, err)
		}
		if n.Link == topology.Bridge {
			if err := In(w.Netns(m.Name), quietSwitch); err != nil {
				return fmt.Errorf("%s %s: %w", m.Name, n.Name, err)
			}
		}
	}
	return w.with(m.Name, func(h *netlink.Handle) error { return routes(h, m.Routes) })
}

// configure writes the settings before any interface exists, because new interfaces inherit the
// defaults.
func configure(m topology.Machine) error {
	for _, scope := range []string{"all", "default"} {
		if err := setAll(map[string]string{
			"net.ipv6.conf." + scope + ".accept_ra": "0",
			"net.ipv4.conf." + scope + ".rp_filter": "0",
		}); err != nil {
			return err
		}
	}
	if m.Forwards {
		if err := setAll(forwarding); err != nil {
			return err
		}
	}
	if m.Node {
		return setAll(strictARP)
	}
	return nil
}

var (
	// With forwarding, the kernel also uses the ports to distribute flows over several routes.
	forwarding = map[string]string{
		"net.ipv4.ip_forward":                "1",
		"net.ipv6.conf.all.forwarding":       "1",
		"net.ipv4.fib_multipath_hash_policy": "1",
		"net.ipv6.fib_multipath_hash_policy": "1",
	}
	// strictARP is PureLB's requirement for nodes: an interface answers only for its own addresses.
	strictARP = map[string]string{
		"net.ipv4.conf.all.arp_ignore":   "1",
		"net.ipv4.conf.all.arp_announce": "2",
	}
)

// plug connects a machine to the switch by a cable. It makes each end directly in its namespace, so
// nothing appears in the namespace of the host.
func (w Net) plug(machine string, n topology.NIC) error {
	ns, err := os.Open(w.Netns(machine))
	if err != nil {
		return err
	}
	defer ns.Close()
	if err := w.with(Switch, func(h *netlink.Handle) error {
		segment, err := h.LinkByName(n.Segment)
		if err != nil {
			return err
		}
		a := attrs(Port(machine, n.Name))
		a.MasterIndex = segment.Attrs().Index
		end := &netlink.Veth{LinkAttrs: a, PeerName: n.Name, PeerHardwareAddr: n.MAC(), PeerNamespace: netlink.NsFd(ns.Fd())}
		if err := h.LinkAdd(end); err != nil {
			return err
		}
		return h.LinkSetUp(end)
	}); err != nil {
		return err
	}
	return w.with(machine, func(h *netlink.Handle) error { return bringUp(h, n) })
}

func bringUp(h *netlink.Handle, n topology.NIC) error {
	link, err := h.LinkByName(n.Name)
	if err != nil {
		return err
	}
	if err := h.LinkSetUp(link); err != nil {
		return err
	}
	if n.Over() != "" {
		if link, err = stack(h, link, n); err != nil {
			return fmt.Errorf("%s: %w", n.Over(), err)
		}
	}
	for _, p := range []string{n.V4.String(), n.V6.String()} {
		a, err := netlink.ParseAddr(p)
		if err != nil {
			return err
		}
		// Addresses are not usable while they are tentative, in the first second.
		if n.V6.String() == p {
			a.Flags = unix.IFA_F_NODAD
		}
		if err := h.AddrAdd(link, a); err != nil {
			return fmt.Errorf("address %s: %w", p, err)
		}
	}
	return nil
}

// stack adds the link that has the addresses of n on top of its cable.
func stack(h *netlink.Handle, cable netlink.Link, n topology.NIC) (netlink.Link, error) {
	a := attrs(n.Over())
	var over netlink.Link
	switch n.Link {
	case topology.Bridge:
		a.HardwareAddr = n.MAC()
		over = &netlink.Bridge{LinkAttrs: a}
	case topology.Macvlan:
		a.ParentIndex = cable.Attrs().Index
		over = &netlink.Macvlan{LinkAttrs: a, Mode: netlink.MACVLAN_MODE_BRIDGE}
	default:
		return nil, fmt.Errorf("unknown kind of link: %s", n.Link)
	}
	if err := h.LinkAdd(over); err != nil {
		return nil, err
	}
	if n.Link == topology.Bridge {
		if err := h.LinkSetMaster(cable, over); err != nil {
			return nil, err
		}
	}
	return over, h.LinkSetUp(over)
}

func attrs(name string) netlink.LinkAttrs {
	a := netlink.NewLinkAttrs()
	a.Name = name
	return a
}

func setAll(settings map[string]string) error {
	for key, value := range settings {
		if err := set(key, value); err != nil {
			return err
		}
	}
	return nil
}
