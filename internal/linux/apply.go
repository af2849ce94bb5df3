package linux

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/rtnetlink"
)

// ErrForeign is why an address is not put where it is already, from somebody
// else.
var ErrForeign = errors.New("is there already, and not ours")

// Put makes addrs be on their links with their attributes. Putting what is
// there renews it.
//
// It looks before it writes: an address that somebody else put there in the
// meantime is left alone (ErrForeign), and what the kernel cannot change in
// place is replaced in one batch. All that can be put is; the error joins an
// announce.AddressError for each that could not.
func (s *Stack) Put(ctx context.Context, addrs []announce.Address) error {
	return s.apply(ctx, addrs, (*plan).put)
}

// Remove takes addrs off their links. What is not there needs no removing, and
// what is there without our mark is somebody else's by now. The error joins an
// announce.AddressError for each that could not be removed.
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

// plan looks at the links and addresses that a change of addrs touches.
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
		links[a.Link] = l // with index 0 when there is none
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
