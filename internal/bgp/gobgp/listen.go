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

// listenPath is the field of a problem with a listen address.
const listenPath = "spec.global.listenAddresses"

// listening returns g without the addresses that this node cannot listen at. Addresses with a
// socket in held stay.
func listening(g peering.Global, held []netip.Addr) (peering.Global, []peering.Problem) {
	if g.Port < 0 || len(g.Listen) == 0 {
		return g, nil
	}
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
	g.Listen = usable
	return g, problems
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
	if len(wanted.Listen) > 0 && len(effective.Listen) == 0 {
		return fmt.Errorf("listen at %v: this node has none of these addresses", wanted.Listen)
	}
	return nil
}

// bindable asks the kernel whether a socket can be bound to an address. Only the kernel knows
// all such addresses: those of VRFs, and of whole networks on loopback. It uses a UDP socket,
// because no client connects to it meanwhile.
func bindable(device string, a netip.Addr) error {
	c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		if device == "" {
			return nil
		}
		var failed error
		err := raw.Control(func(fd uintptr) { failed = syscall.BindToDevice(int(fd), device) })
		return errors.Join(err, os.NewSyscallError("bind to "+device, failed))
	}}
	conn, err := c.ListenPacket(context.Background(), "udp", netip.AddrPortFrom(a, 0).String())
	if err != nil {
		return err
	}
	return conn.Close()
}
