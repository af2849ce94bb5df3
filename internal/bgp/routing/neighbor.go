package routing

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

const (
	// solicitFor is how long to wait for answers, first of routers and then of all nodes.
	solicitFor = 250 * time.Millisecond
	// resolveEvery is the interval at which the neighbor table is read meanwhile.
	resolveEvery = 20 * time.Millisecond
)

// neighbor is an entry of the neighbor table.
type neighbor struct {
	link   int
	addr   netip.Addr
	state  uint16
	router bool
}

// LinkLocalNeighbor returns the link-local address, with its zone, of the one neighbor on
// an unnumbered link. It returns false if there is none yet. If there are several
// neighbors, it returns the one that is a router, or else the one that was heard lately. If
// that leaves several, it is an error.
//
// If it knows no neighbor, it sends requests to routers and then to all nodes, and waits
// for at most half a second. The kernel then has every node that answers in its neighbor
// table. If the neighbor has long been silent, the function returns that neighbor, and
// makes the kernel check which neighbors answer. A later call returns the result.
func (k *Kernel) LinkLocalNeighbor(ctx context.Context, name string) (netip.Addr, bool, error) {
	l, ok, err := k.link(ctx, name)
	if err != nil || !ok || !l.up {
		return netip.Addr{}, false, err
	}
	known, err := k.neighbors(ctx, l.index)
	for _, group := range []netip.Addr{allRouters, allNodes} {
		if best := routers(known); err != nil || len(best) == 1 && !best[0].silent() {
			break
		}
		known, err = k.solicit(ctx, l, group, known)
	}
	if err != nil {
		return netip.Addr{}, false, fmt.Errorf("find the neighbor on %s: %w", name, err)
	}
	switch best := likely(known); len(best) {
	case 0:
		return netip.Addr{}, false, nil
	case 1:
		return best[0].addr.WithZone(name), true, nil
	default:
		return netip.Addr{}, false, fmt.Errorf("%d neighbors on %s, such as %s and %s: an unnumbered link has one",
			len(best), name, best[0].addr, best[1].addr)
	}
}

// likely reduces neighbors to those that may be the router.
func likely(all []neighbor) []neighbor {
	return prefer(routers(all), func(n neighbor) bool { return !n.silent() })
}

// routers returns the neighbors that announce themselves as routers, or all if none does.
func routers(all []neighbor) []neighbor {
	return prefer(all, func(n neighbor) bool { return n.router })
}

// prefer returns the better neighbors, or all if none is better.
func prefer(all []neighbor, better func(neighbor) bool) []neighbor {
	some := slices.DeleteFunc(slices.Clone(all), func(n neighbor) bool { return !better(n) })
	if len(some) == 0 {
		return all
	}
	return some
}

// solicit asks routers, or all nodes, to answer, and makes the kernel resolve those that answer. It
// returns the neighbors that are known then.
func (k *Kernel) solicit(ctx context.Context, l link, group netip.Addr, known []neighbor) ([]neighbor, error) {
	c, err := k.openICMP(ctx, l, ipv6.ICMPTypeEchoReply, ipv6.ICMPTypeRouterAdvertisement)
	if errors.Is(err, errNoAddress) {
		return known, nil
	}
	if err != nil {
		return nil, err
	}
	defer c.close()
	// The known entries may be out of date. A packet to them makes the kernel check them.
	for _, n := range known {
		_ = c.send(n.addr, echo())
	}
	// Not every router answers both messages.
	err = errors.Join(c.send(group, solicitation(l.mac)), c.send(group, echo()))
	for deadline := time.Now().Add(solicitFor); err == nil && time.Now().Before(deadline); {
		// If there is one neighbor, there may be a slower second one.
		if known, err = k.neighbors(ctx, l.index); err != nil || len(known) == 1 && !known[0].silent() {
			return known, err
		}
		err = c.greet(time.Now().Add(resolveEvery))
	}
	return known, err
}

// greet sends an Echo Request to the sender of the next message.
func (c *icmp) greet(until time.Time) error {
	_, from, _, err := c.receive(until)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	if err == nil && from.IsLinkLocalUnicast() {
		_ = c.send(from, echo())
	}
	return err
}

// neighbors returns the link-local neighbors on a link that are reachable, as far as the
// kernel knows.
func (k *Kernel) neighbors(ctx context.Context, link int) ([]neighbor, error) {
	body := make([]byte, unix.SizeofNdMsg)
	body[0] = unix.AF_INET6
	req := rtnetlink.NewRequest(unix.RTM_GETNEIGH, 0, body)
	req.AddNumber(unix.NDA_IFINDEX, uint32(link))
	all, err := rtnetlink.Dump(ctx, k.route, patience, req, func(body []byte) (neighbor, bool, error) {
		n, err := parseNeighbor(body)
		return n, n.link == link && n.reachable(), err
	})
	if err != nil {
		return nil, fmt.Errorf("read neighbors: %w", err)
	}
	return all, nil
}

// silent reports whether the kernel has not heard of n for a while, and has not sent to it
// either.
func (n neighbor) silent() bool { return n.state&unix.NUD_STALE != 0 }

func (n neighbor) reachable() bool {
	const known = unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE | unix.NUD_PERMANENT
	return n.state&known != 0 && n.addr.IsLinkLocalUnicast()
}

// parseNeighbor parses the body of an RTM_NEWNEIGH.
func parseNeighbor(body []byte) (neighbor, error) {
	if len(body) < unix.SizeofNdMsg {
		return neighbor{}, fmt.Errorf("neighbor message of %d bytes: %w", len(body), unix.EBADMSG)
	}
	n := neighbor{
		link:   int(native.Uint32(body[4:])),
		state:  native.Uint16(body[8:]),
		router: body[10]&unix.NTF_ROUTER != 0,
	}
	for kind, value := range rtnetlink.Attributes(body[unix.SizeofNdMsg:]) {
		if kind == unix.NDA_DST {
			n.addr = rtnetlink.Address(value)
		}
	}
	return n, nil
}
