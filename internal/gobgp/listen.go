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

	"purelb.io/purelb/internal/peering"
)

// listenPath is what a problem with an address to listen at is about.
const listenPath = "spec.global.listenAddresses"

// listening is g without the addresses that this node cannot listen at, but for
// those that are held by sockets.
func listening(g peering.Global, held []netip.Addr) (peering.Global, []peering.Problem) {
	if g.Port < 0 || len(g.Listen) == 0 {
		return g, nil
	}
	var problems []peering.Problem
	usable := []netip.Addr{} // and not nil, which would be all
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

// startable finds out before a running server is stopped what the kernel would
// refuse of the next one. effective is what is left of wanted.
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

// bindable asks the kernel whether a socket can be bound to an address, of which
// only the kernel knows all: those of VRFs, and of whole networks on loopback. It
// is one of UDP, to which nobody connects meanwhile.
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
