package routing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/rtnetlink"
)

const (
	// skipStats is RTEXT_FILTER_SKIP_STATS. Counters are most of a link's message, and this
	// package does not read them.
	skipStats = 1 << 3
)

// link is a network interface.
type link struct {
	index int
	name  string
	up    bool
	// mac is its Ethernet address, or empty if it has none.
	mac []byte
}

// Interfaces returns the interfaces that match patterns, sorted by name, and the patterns
// that match no interface.
func (k *Kernel) Interfaces(ctx context.Context, patterns []string) ([]peering.Interface, error) {
	links, err := k.links(ctx, patience)
	if err != nil {
		return nil, fmt.Errorf("read interfaces: %w", err)
	}
	return interfaces(links, patterns), nil
}

func interfaces(links []link, patterns []string) []peering.Interface {
	var all []peering.Interface
	for _, pattern := range patterns {
		found := false
		for _, l := range links {
			if matches([]string{pattern}, l.name) {
				found = true
				all = append(all, peering.Interface{Name: l.name, Exists: true, Up: l.up})
			}
		}
		if !found {
			all = append(all, peering.Interface{Name: pattern})
		}
	}
	slices.SortFunc(all, func(a, b peering.Interface) int { return cmp.Compare(a.Name, b.Name) })
	return slices.Compact(all)
}

// matches reports whether one of patterns matches name. A malformed one matches nothing.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, _ := path.Match(pattern, name)
		return ok
	})
}

func linkRequest(index int) *rtnetlink.Request {
	body := make([]byte, unix.SizeofIfInfomsg)
	native.PutUint32(body[4:], uint32(index))
	req := rtnetlink.NewRequest(unix.RTM_GETLINK, 0, body)
	req.AddNumber(unix.IFLA_EXT_MASK, skipStats)
	return req
}

func (k *Kernel) links(ctx context.Context, tries int) ([]link, error) {
	return rtnetlink.Dump(ctx, k.route, tries, linkRequest(0), func(body []byte) (link, bool, error) {
		l, err := parseLink(body)
		return l, true, err
	})
}

// link returns the link with this name, or false if there is none.
func (k *Kernel) link(ctx context.Context, name string) (link, bool, error) {
	if name == "" || len(name) >= unix.IFNAMSIZ || strings.Contains(name, "\x00") {
		return link{}, false, nil
	}
	req := linkRequest(0)
	req.Add(unix.IFLA_IFNAME, append([]byte(name), 0))
	return k.askLink(ctx, req)
}

func (k *Kernel) linkAt(ctx context.Context, index int) (link, bool, error) {
	return k.askLink(ctx, linkRequest(index))
}

func (k *Kernel) askLink(ctx context.Context, req *rtnetlink.Request) (link, bool, error) {
	body, err := k.route.Ask(ctx, req)
	if errors.Is(err, unix.ENODEV) {
		return link{}, false, nil
	}
	if err != nil {
		return link{}, false, fmt.Errorf("read interface: %w", err)
	}
	l, err := parseLink(body)
	return l, err == nil, err
}

// parseLink parses the body of an RTM_NEWLINK.
func parseLink(body []byte) (link, error) {
	if len(body) < unix.SizeofIfInfomsg {
		return link{}, fmt.Errorf("link message of %d bytes: %w", len(body), unix.EBADMSG)
	}
	l := link{
		index: int(int32(native.Uint32(body[4:]))),
		up:    native.Uint32(body[8:])&unix.IFF_UP != 0,
	}
	ethernet := native.Uint16(body[2:]) == unix.ARPHRD_ETHER
	for kind, value := range rtnetlink.Attributes(body[unix.SizeofIfInfomsg:]) {
		switch kind {
		case unix.IFLA_IFNAME:
			l.name = unix.ByteSliceToString(value)
		case unix.IFLA_ADDRESS:
			if ethernet && len(value) == 6 {
				l.mac = slices.Clone(value)
			}
		}
	}
	return l, nil
}
