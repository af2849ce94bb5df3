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
	"golang.org/x/sys/unix"
)

const (
	// advertiseLeast and advertiseMost are the time between two advertisements
	// that nobody asked for. FRR, which looks for neighbours by them, repeats
	// its own as often.
	advertiseLeast, advertiseMost = 7500 * time.Millisecond, 10 * time.Second
	// advertiseApart is MIN_DELAY_BETWEEN_RAS of RFC 4861 section 10: what all
	// nodes hear must not come more often.
	advertiseApart = 3 * time.Second
	// advertiseLook is how often the link is looked at.
	advertiseLook = time.Second
	// advertiseAgain is the pause before a link is tried again that cannot be
	// advertised on, be it that it is not there.
	advertiseAgain = 200 * time.Millisecond
)

// Advertise sends Router Advertisements (RFC 4861) on an interface until ctx is
// done, so that a router on an unnumbered link finds out the address of this
// node: at once, then every ten seconds at most, and to whoever solicits one.
// They do not make this node a default router, and say nothing else.
//
// The interface may come and go meanwhile. The error is one that waiting does
// not mend.
func (k *Kernel) Advertise(ctx context.Context, name string) error {
	said := ""
	for {
		err := k.advertiseOn(ctx, name)
		if ctx.Err() != nil || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
			return ended(ctx, fmt.Errorf("advertise on %s: %w", name, err))
		}
		if said != err.Error() {
			said = err.Error()
			k.log.InfoContext(ctx, "no router advertisements", "interface", name, "error", err)
		}
		wait(ctx, advertiseAgain)
	}
}

// advertiseOn advertises until that fails.
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

// unchanged says whether the link and its addresses are what they were when c was
// opened. A socket does not tell when its link is gone.
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

// answer hears solicitations until then, or until an advertisement is due.
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
		// What cannot be sent to one is not the end: the others wait for theirs.
		_ = c.send(from, advertisement(c.link.mac))
	}
	return nil
}

// schedule is when advertisements are sent to all nodes.
type schedule struct {
	last, next time.Time
}

func (s *schedule) sent(now time.Time, pause time.Duration) {
	s.last, s.next = now, now.Add(pause)
}

// solicited says whether to answer to from alone. Who has no address yet hears
// what all hear, sooner than it would have come.
func (s *schedule) solicited(from netip.Addr) bool {
	if from.IsValid() && !from.IsUnspecified() {
		return true
	}
	if soon := s.last.Add(advertiseApart); soon.Before(s.next) {
		s.next = soon
	}
	return false
}

// wait is false when ctx is done before.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
