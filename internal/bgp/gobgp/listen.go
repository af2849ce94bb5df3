package gobgp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"

	"purelb.io/purelb/internal/bgp/peering"
)

// The fields of problems with listening.
const (
	listenPath = "spec.global.listenAddresses"
	portPath   = "spec.global.listenPort"
)

// listening returns g with the port and the addresses at which this node can listen. held is the Global
// of the running server, which has sockets. If another program has the port, the node does not listen
// at all: it opens its sessions itself.
func listening(g, held peering.Global) (peering.Global, []peering.Problem) {
	if g.Port < 0 {
		return g, nil
	}
	var problems []peering.Problem
	if len(g.Listen) > 0 {
		if g.Listen, problems = usableAddresses(g, held.Listen); len(g.Listen) == 0 {
			return g, problems
		}
	}
	if held.Port == g.Port {
		return g, problems
	}
	if err := portFree(g); err != nil {
		problems = append(problems, peering.Problem{
			Field: portPath, Reason: reasonRefused,
			Message: fmt.Sprintf("the node does not listen on TCP port %d, and opens its sessions itself, until no other program has the port: %v", g.Port, err),
		})
		g.Port, g.Listen = -1, nil
	}
	return g, problems
}

// portFree asks the kernel whether the port is free. A kernel without IPv6 has no IPv6 sockets.
func portFree(g peering.Global) error {
	all := g.Listen
	if len(all) == 0 {
		all = []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	}
	for _, a := range all {
		network := "tcp4"
		if a.Is6() {
			network = "tcp6"
		}
		c := net.ListenConfig{Control: bindTo(g.Device)}
		listener, err := c.Listen(context.Background(), network, netip.AddrPortFrom(a, uint16(g.Port)).String())
		switch {
		case err == nil:
			_ = listener.Close()
		case errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, os.ErrPermission):
			return err
		}
	}
	return nil
}

// usableAddresses returns the listen addresses of g at which this node can listen. Addresses with a
// socket in held stay.
func usableAddresses(g peering.Global, held []netip.Addr) ([]netip.Addr, []peering.Problem) {
	var problems []peering.Problem
	usable := []netip.Addr{} // not nil, which would mean all addresses
	for _, a := range g.Listen {
		if err := bindable(g.Device, a); err != nil && !slices.Contains(held, a) {
			problems = append(problems, peering.Problem{
				Field: listenPath, Reason: reasonRefused,
				Message: fmt.Sprintf("%v is left out until this node has it: %v", a, err),
			})
			continue
		}
		usable = append(usable, a)
	}
	return usable, problems
}

// startable checks, before a running server is stopped, whether the kernel would refuse the
// sockets of the next one. effective is the usable part of wanted.
func startable(wanted, effective peering.Global) error {
	if wanted.Port < 0 {
		return nil
	}
	if wanted.Device != "" {
		if _, err := net.InterfaceByName(wanted.Device); err != nil {
			return fmt.Errorf("bind to %s: %w", wanted.Device, err)
		}
	}
	if effective.Port >= 0 && len(wanted.Listen) > 0 && len(effective.Listen) == 0 {
		return fmt.Errorf("listen at %v: this node has none of these addresses", wanted.Listen)
	}
	return nil
}

// bindable asks the kernel whether a socket can be bound to an address. Only the kernel knows
// all such addresses: those of VRFs, and of whole networks on loopback. It uses a UDP socket,
// because no client connects to it meanwhile.
func bindable(device string, a netip.Addr) error {
	c := net.ListenConfig{Control: bindTo(device)}
	conn, err := c.ListenPacket(context.Background(), "udp", netip.AddrPortFrom(a, 0).String())
	if err != nil {
		return err
	}
	return conn.Close()
}

// bindTo returns a function that binds a socket to a device, if it is not "".
func bindTo(device string) func(network, address string, raw syscall.RawConn) error {
	return func(_, _ string, raw syscall.RawConn) error {
		if device == "" {
			return nil
		}
		var failed error
		err := raw.Control(func(fd uintptr) { failed = syscall.BindToDevice(int(fd), device) })
		return errors.Join(err, os.NewSyscallError("bind to "+device, failed))
	}
}
