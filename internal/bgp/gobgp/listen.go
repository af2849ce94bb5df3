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

// listening returns g with the port and the addresses at which this node can listen, and why it lacks others.
// held is the Global of the running server, whose sockets outlive their addresses. If another program has the
// port, the node does not listen at all: it opens its sessions itself. A Global that the kernel would refuse
// altogether is an error.
func listening(g, held peering.Global) (peering.Global, []peering.Problem, error) {
	if g.Port < 0 {
		return g, nil, nil
	}
	if g.Device != "" {
		if _, err := net.InterfaceByName(g.Device); err != nil {
			return g, nil, fmt.Errorf("bind to %s: %w", g.Device, err)
		}
	}
	asked := g.Listen
	if len(asked) == 0 {
		asked = []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	}
	var usable []netip.Addr
	var problems []peering.Problem
	for _, a := range asked {
		err := tryListen(g, a)
		switch {
		case err == nil, slices.Contains(held.Listen, a), errors.Is(err, syscall.EADDRINUSE) && held.Port == g.Port:
			usable = append(usable, a)
		case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, os.ErrPermission):
			problem := peering.Problem{
				Field: portPath, Reason: reasonRefused,
				Message: fmt.Sprintf("the node does not listen on TCP port %d, and opens its sessions itself, until no other program has the port: %v", g.Port, err),
			}
			g.Port, g.Listen = -1, nil
			return g, append(problems, problem), nil
		case len(g.Listen) > 0: // a kernel without IPv6 has no address ::
			problems = append(problems, peering.Problem{
				Field: listenPath, Reason: reasonRefused,
				Message: fmt.Sprintf("%v is left out until this node has it: %v", a, err),
			})
		}
	}
	if len(usable) == 0 {
		return g, nil, fmt.Errorf("listen at %v: this node has none of these addresses", asked)
	}
	if len(g.Listen) > 0 {
		g.Listen = usable
	}
	return g, problems, nil
}

// tryListen asks the kernel whether a server can listen at an address. Only the kernel knows all such
// addresses: those of VRFs, and of whole networks on loopback.
func tryListen(g peering.Global, a netip.Addr) error {
	network := "tcp4"
	if a.Is6() {
		network = "tcp6"
	}
	c := net.ListenConfig{Control: bindTo(g.Device)}
	listener, err := c.Listen(context.Background(), network, netip.AddrPortFrom(a, uint16(g.Port)).String())
	if err != nil {
		return err
	}
	return listener.Close()
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
