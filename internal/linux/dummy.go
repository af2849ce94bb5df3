package linux

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

// EnsureDummy makes sure that a link with this name exists and is up. It returns the kind
// of the link.
//
// It uses an existing link as it is, of any kind. A new link is a dummy, or an ifb if the
// kernel has no dummy driver. Both are always up, send no ARP and detect no duplicates.
func (s *Stack) EnsureDummy(ctx context.Context, name string) (kind string, err error) {
	l, err := s.link(ctx, name)
	if errors.Is(err, unix.ENODEV) {
		l, err = s.createDummy(ctx, name)
	}
	if err != nil {
		return "", fmt.Errorf("ensure link %s: %w", name, err)
	}
	if l.Up {
		return l.Kind, nil
	}
	if err := s.route.Do(ctx, setLink(l.Index, true, false)); err != nil {
		return "", fmt.Errorf("set link %s up: %w", name, err)
	}
	return l.Kind, nil
}

func (s *Stack) createDummy(ctx context.Context, name string) (link, error) {
	err := s.route.Do(ctx, newLink(name, "dummy"))
	if errors.Is(err, unix.EOPNOTSUPP) {
		s.log.InfoContext(ctx, "no dummy driver in this kernel, using ifb", "interface", name)
		err = s.route.Do(ctx, newLink(name, "ifb"))
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return link{}, err
	}
	l, err := s.link(ctx, name)
	if err != nil {
		return link{}, err
	}
	s.log.InfoContext(ctx, "created interface", "interface", name, "kind", l.Kind)
	return l, s.route.Do(ctx, setLink(l.Index, true, true))
}

func newLink(name, kind string) *rtnetlink.Request {
	req := rtnetlink.NewRequest(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, linkBody(0, 0))
	req.Add(unix.IFLA_IFNAME, append([]byte(name), 0))
	req.Add(unix.IFLA_LINKINFO, rtnetlink.AppendAttribute(nil, unix.IFLA_INFO_KIND, []byte(kind)))
	return req
}
