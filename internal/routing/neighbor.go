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
	// provokeFor is how long answers are waited for, by routers first and then
	// by all nodes.
	provokeFor = 250 * time.Millisecond
	// resolveEvery is how often the neighbour table is read meanwhile.
	resolveEvery = 20 * time.Millisecond
)

// neighbor is an entry of the neighbour table.
type neighbor struct {
	link   int
	addr   netip.Addr
	state  uint16
	router bool
}

// LinkLocalNeighbor returns the link-local address of the one neighbour on an
// unnumbered link, with its zone, and false when there is none yet. Among several
// it is the one that is a router, or the one that was heard of lately; when that
// does not decide it, it is an error.
//
// When nobody is known, it asks for routers, then for anybody, and waits half a
// second at most. Whoever answers is in the kernel's neighbour table then. One
// that has long been silent is returned, and the kernel is made to find out
// whether it is still there, and whether another is: a later call knows.
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
		known, err = k.provoke(ctx, l, group, known)
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

// likely narrows neighbours down to those that may be the router.
func likely(all []neighbor) []neighbor {
	return prefer(routers(all), func(n neighbor) bool { return !n.silent() })
}

// routers returns the neighbours that say that they are routers, or all when none
// does.
func routers(all []neighbor) []neighbor {
	return prefer(all, func(n neighbor) bool { return n.router })
}

// prefer returns those of all that are better, or all when none is.
func prefer(all []neighbor, better func(neighbor) bool) []neighbor {
	some := slices.DeleteFunc(slices.Clone(all), func(n neighbor) bool { return !better(n) })
	if len(some) == 0 {
		return all
	}
	return some
}

// provoke makes routers, or all nodes, say that they are there, and makes the
// kernel look for those who do. It returns the neighbours that are known then.
func (k *Kernel) provoke(ctx context.Context, l link, group netip.Addr, known []neighbor) ([]neighbor, error) {
	c, err := k.openICMP(ctx, l, ipv6.ICMPTypeEchoReply, ipv6.ICMPTypeRouterAdvertisement)
	if errors.Is(err, errNoAddress) {
		return known, nil
	}
	if err != nil {
		return nil, err
	}
	defer c.close()
	// What is known may be out of date: sending to it has the kernel find out.
	for _, n := range known {
		_ = c.send(n.addr, echo())
	}
	// Not every router answers to both.
	err = errors.Join(c.send(group, solicitation(l.mac)), c.send(group, echo()))
	for deadline := time.Now().Add(provokeFor); err == nil && time.Now().Before(deadline); {
		// Where there is one, there may be another that is slower.
		if known, err = k.neighbors(ctx, l.index); err != nil || len(known) == 1 && !known[0].silent() {
			return known, err
		}
		err = c.greet(time.Now().Add(resolveEvery))
	}
	return known, err
}

// greet sends to whoever says something until then.
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

// neighbors returns the link-local neighbours on a link that can be reached, as
// far as the kernel knows.
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

// silent says that nothing was heard of n for a while, and nothing sent to it.
func (n neighbor) silent() bool { return n.state&unix.NUD_STALE != 0 }

func (n neighbor) reachable() bool {
	const known = unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE | unix.NUD_PERMANENT
	return n.state&known != 0 && n.addr.IsLinkLocalUnicast()
}

// parseNeighbor reads the body of a RTM_NEWNEIGH.
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
