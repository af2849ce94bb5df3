package routing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"time"

	"golang.org/x/net/ipv6"

	"purelb.io/purelb/internal/backoff"
)

const (
	// advertiseLeast and advertiseMost bound the time between two unsolicited
	// advertisements. FRR detects neighbors by them, and repeats its own as often.
	advertiseLeast, advertiseMost = 7500 * time.Millisecond, 10 * time.Second
	// advertiseApart is MIN_DELAY_BETWEEN_RAS of RFC 4861 section 10: the shortest time
	// between two advertisements to all nodes.
	advertiseApart = 3 * time.Second
	// advertiseLook is how often Advertise checks the link.
	advertiseLook = time.Second
	// advertiseAgain is the pause before the next attempt on a link on which advertising
	// failed, for example because it does not exist.
	advertiseAgain = 200 * time.Millisecond
)

// Advertise sends Router Advertisements (RFC 4861) on an interface until ctx is done. From
// them a router on an unnumbered link learns the address of this node. Advertise sends one
// at once, then at least one every ten seconds, and one in answer to each solicitation. The
// advertisements do not make this node a default router, and carry no other information.
//
// The interface may disappear and come back meanwhile.
func (k *Kernel) Advertise(ctx context.Context, name string) {
	said := ""
	for ctx.Err() == nil {
		err := k.advertiseOn(ctx, name)
		if ctx.Err() == nil && said != err.Error() {
			said = err.Error()
			k.log.WarnContext(ctx, "no router advertisements", "interface", name, "error", err)
		}
		backoff.Sleep(ctx, advertiseAgain)
	}
}

// advertiseOn advertises until an error.
func (k *Kernel) advertiseOn(ctx context.Context, name string) error {
	l, ok, err := k.link(ctx, name)
	if err != nil {
		return err
	}
	if !ok || !l.up {
		return errNoLink
	}
	c, err := k.openICMP(ctx, l, ipv6.ICMPTypeRouterSolicitation)
	if err != nil {
		return err
	}
	defer c.close()
	defer context.AfterFunc(ctx, c.close)()
	for s := (schedule{}); ; {
		if err := k.unchanged(ctx, c); err != nil {
			return err
		}
		if now := time.Now(); !now.Before(s.next) {
			if err := c.send(allNodes, advertisement(c.link.mac)); err != nil {
				return fmt.Errorf("send router advertisement: %w", err)
			}
			s.sent(now, advertiseLeast+rand.N(advertiseMost-advertiseLeast))
		}
		if err := c.answer(&s, time.Now().Add(advertiseLook)); err != nil {
			return err
		}
	}
}

// unchanged returns an error if the link or its link-local address changed after c was
// opened. A socket does not report that its link is gone.
func (k *Kernel) unchanged(ctx context.Context, c *icmp) error {
	l, ok, err := k.link(ctx, c.link.name)
	if err != nil {
		return err
	}
	if !ok || !l.up || l.index != c.link.index || !bytes.Equal(l.mac, c.link.mac) {
		return errNoLink
	}
	source, ok, err := k.linkLocal(ctx, l.index)
	if err != nil {
		return err
	}
	if !ok || source != c.source {
		return errNoAddress
	}
	return nil
}

// answer receives solicitations until the deadline, or until an advertisement is due.
func (c *icmp) answer(s *schedule, until time.Time) error {
	if s.next.Before(until) {
		until = s.next
	}
	message, from, hopLimit, err := c.receive(until)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil
	case err != nil:
		return fmt.Errorf("hear router solicitations: %w", err)
	}
	if solicits(message, from, hopLimit) && s.solicited(from) {
		// An error on the way to one router must not stop the advertisements to the others.
		_ = c.send(from, advertisement(c.link.mac))
	}
	return nil
}

// schedule is the time of the last and of the next advertisement to all nodes.
type schedule struct {
	last, next time.Time
}

func (s *schedule) sent(now time.Time, pause time.Duration) {
	s.last, s.next = now, now.Add(pause)
}

// solicited reports whether to answer the sender alone. If the sender has no address yet,
// the next advertisement to all nodes is sent earlier instead.
func (s *schedule) solicited(from netip.Addr) bool {
	if from.IsValid() && !from.IsUnspecified() {
		return true
	}
	if soon := s.last.Add(advertiseApart); soon.Before(s.next) {
		s.next = soon
	}
	return false
}
