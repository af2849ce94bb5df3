package linux

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/rtnetlink"
)

// ErrForeign means that another program has already added the address.
var ErrForeign = errors.New("is there already, and not ours")

// Put adds addrs to their links with their attributes. If an address exists already, Put
// renews it.
//
// Put reads the addresses before it writes. It does not change an address that another
// program has added meanwhile (ErrForeign). If the kernel cannot change an address in
// place, Put removes it and adds it again in one batch. A failure of one address does not
// stop the others. The error joins an announce.AddressError for each failure.
func (s *Stack) Put(ctx context.Context, addrs []announce.Address) error {
	return s.apply(ctx, addrs, (*plan).put)
}

// Remove removes addrs from their links. It ignores addresses that do not exist, and
// addresses without our mark, because those belong to another program. The error joins an
// announce.AddressError for each failure.
func (s *Stack) Remove(ctx context.Context, addrs []announce.Address) error {
	return s.apply(ctx, addrs, (*plan).remove)
}

func (s *Stack) apply(ctx context.Context, addrs []announce.Address, change func(*plan, announce.Address)) error {
	if len(addrs) == 0 {
		return nil
	}
	p, err := s.plan(ctx, addrs)
	if err != nil {
		return err
	}
	for _, a := range addrs {
		change(p, a)
	}
	for _, l := range p.promote() {
		if err := s.route.Do(ctx, setLink(l.Index, false, true)); err != nil {
			p.spare(l, err)
			continue
		}
		s.log.InfoContext(ctx, "keeping secondary addresses when a primary goes", "interface", l.Name)
	}
	p.report(s.route.Batch(ctx, p.requests()))
	return errors.Join(p.failed...)
}

// plan reads the links and addresses that a change of addrs concerns.
func (s *Stack) plan(ctx context.Context, addrs []announce.Address) (*plan, error) {
	links := make(map[string]link)
	families := make(map[uint8]bool)
	for _, a := range addrs {
		families[rtnetlink.Family(a.Prefix.Addr())] = true
		if _, seen := links[a.Link]; seen {
			continue
		}
		l, err := s.link(ctx, a.Link)
		if err != nil && !errors.Is(err, unix.ENODEV) {
			return nil, fmt.Errorf("read link %s: %w", a.Link, err)
		}
		links[a.Link] = l // the index is 0 if there is no such link
	}
	var all []held
	for family := range families {
		some, err := s.dumpAddresses(ctx, family)
		if err != nil {
			return nil, fmt.Errorf("read addresses: %w", err)
		}
		all = append(all, some...)
	}
	return newPlan(links, all, s.marks), nil
}
