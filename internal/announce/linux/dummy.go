package linux

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

// dummyAlias is the alias of the links that EnsureDummy creates. It distinguishes them from
// links of an administrator.
const dummyAlias = "purelb"

// EnsureDummy makes sure that a link with this name exists and is up.
//
// It uses an existing link as it is, of any kind. A new link is a dummy, or an ifb if the
// kernel has no dummy driver. Both are always up, send no ARP and detect no duplicates.
func (s *Stack) EnsureDummy(ctx context.Context, name string) error {
	l, err := s.link(ctx, name)
	if errors.Is(err, unix.ENODEV) {
		l, err = s.createDummy(ctx, name)
	}
	if err == nil && !l.Up {
		err = s.route.Do(ctx, setLink(l.Index, true, false))
	}
	if err != nil {
		return fmt.Errorf("ensure link %s: %w", name, err)
	}
	return nil
}

func (s *Stack) createDummy(ctx context.Context, name string) (link, error) {
	err := s.route.Do(ctx, newLink(name, "dummy"))
	if errors.Is(err, unix.EOPNOTSUPP) {
		s.log.InfoContext(ctx, "no dummy driver in this kernel, using ifb", "interface", name)
		err = s.route.Do(ctx, newLink(name, "ifb"))
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		return link{}, fmt.Errorf("the kernel has neither a dummy nor an ifb driver: install its further modules (Ubuntu: linux-modules-extra-%s, "+
			"RHEL and Rocky: kernel-modules-extra), or make the interface before the agent starts (ip link add %s type bridge): %w", release(), name, err)
	}
	if errors.Is(err, unix.EEXIST) {
		return s.link(ctx, name) // another program created the link first, and owns it
	}
	if err != nil {
		return link{}, err
	}
	l, err := s.link(ctx, name)
	if err != nil {
		return link{}, err
	}
	s.log.InfoContext(ctx, "created interface", "interface", name, "kind", l.Kind)
	up := setLink(l.Index, true, true)
	up.Add(unix.IFLA_IFALIAS, []byte(dummyAlias))
	return l, s.route.Do(ctx, up)
}

// release returns the release of the kernel, which is a part of the names of its packages.
func release() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "RELEASE"
	}
	return unix.ByteSliceToString(name.Release[:])
}

// RemoveDummies deletes the links that EnsureDummy created, also under an earlier name. It
// keeps a link that still has an address, other than the link-local one of the kernel.
func (s *Stack) RemoveDummies(ctx context.Context) error {
	links, err := s.links(ctx)
	if err != nil {
		return fmt.Errorf("read links: %w", err)
	}
	addresses, err := s.addresses(ctx)
	if err != nil {
		return fmt.Errorf("read addresses: %w", err)
	}
	var errs []error
	for _, l := range links {
		used := slices.ContainsFunc(addresses, func(a held) bool {
			return a.index == l.Index && !a.Prefix.Addr().IsLinkLocalUnicast()
		})
		if !l.Made || used {
			continue
		}
		err := s.route.Do(ctx, rtnetlink.NewRequest(unix.RTM_DELLINK, 0, linkBody(l.Index, 0)))
		if err != nil && !errors.Is(err, unix.ENODEV) {
			errs = append(errs, fmt.Errorf("delete link %s: %w", l.Name, err))
			continue
		}
		s.log.InfoContext(ctx, "deleted interface", "interface", l.Name)
	}
	return errors.Join(errs...)
}

func newLink(name, kind string) *rtnetlink.Request {
	req := rtnetlink.NewRequest(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, linkBody(0, 0))
	req.Add(unix.IFLA_IFNAME, append([]byte(name), 0))
	req.Add(unix.IFLA_LINKINFO, rtnetlink.AppendAttribute(nil, unix.IFLA_INFO_KIND, []byte(kind)))
	return req
}
