package ipamtest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
)

const cluster = "ipamtest"

// claim returns the claim of a Service in the namespace default.
func claim(cluster, service string, f addr.Family) ipam.Claim {
	c := ipam.Claim{Group: "default", Service: "default/" + service, Family: f}
	c.Key = ipam.KeyOf(cluster, c)
	return c
}

// claims returns n claims of different Services.
func claims(n int, f addr.Family) []ipam.Claim {
	var list []ipam.Claim
	for i := range n {
		list = append(list, claim(cluster, fmt.Sprintf("web-%d", i), f))
	}
	return list
}

// one claims one address, and checks that the backend owns it.
func one(ctx context.Context, b Backend, d Driver, c ipam.Claim) (ipam.Grant, error) {
	answers := d.Claim(ctx, []ipam.Claim{c})
	if len(answers) != 1 {
		return ipam.Grant{}, fmt.Errorf("one claim got %d answers", len(answers))
	}
	if err := answers[0].Err; err != nil {
		return ipam.Grant{}, fmt.Errorf("claim %s: %w", c.Key, err)
	}
	return answers[0].Grant, fits(b, c, answers[0].Grant)
}

// fits checks that g answers c.
func fits(b Backend, c ipam.Claim, g ipam.Grant) error {
	switch {
	case g.Key != c.Key:
		return fmt.Errorf("the claim %s was answered with the key %s", c.Key, g.Key)
	case !slices.Contains(b.Addresses(c.Family), g.Address):
		return fmt.Errorf("the claim %s got %s, which is not an %s address of the backend", c.Key, g.Address, c.Family)
	}
	return nil
}

func release(ctx context.Context, d Driver, grants ...ipam.Grant) error {
	errs := d.Release(ctx, grants)
	if len(errs) != len(grants) {
		return fmt.Errorf("the release of %d grants got %d answers", len(grants), len(errs))
	}
	return errors.Join(errs...)
}

// refused checks that err is a refusal of this kind with a message.
func refused(err error, kinds ...ipam.Kind) error {
	if err == nil {
		return fmt.Errorf("got no error, want one of kind %v", kinds)
	}
	var e *ipam.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("want an error of kind %v: %w", kinds, err)
	}
	if !slices.Contains(kinds, e.Kind) {
		return fmt.Errorf("got kind %s (%s), want %v", e.Kind, e.Message, kinds)
	}
	if e.Message == "" {
		return fmt.Errorf("the error of kind %s has no message", e.Kind)
	}
	return nil
}

func repeated(ctx context.Context, b Backend) error {
	c := claim(cluster, "web", addr.V4)
	first, err := one(ctx, b, b.Driver(cluster), c)
	if err != nil {
		return err
	}
	for _, d := range []Driver{b.Driver(cluster), b.Driver(cluster)} {
		again, err := one(ctx, b, d, c)
		if err != nil {
			return err
		}
		if again.Address != first.Address {
			return fmt.Errorf("first %s, then %s", first.Address, again.Address)
		}
	}
	return nil
}

// claimEach makes the claims of several holders, one after the other.
func claimEach(ctx context.Context, d Driver, claims []ipam.Claim) []ipam.Answer {
	var answers []ipam.Answer
	for _, c := range claims {
		answers = append(answers, d.Claim(ctx, []ipam.Claim{c})...)
	}
	return answers
}

func families(ctx context.Context, b Backend) error {
	want := append(claims(3, addr.V4), claims(3, addr.V6)...)
	answers := claimEach(ctx, b.Driver(cluster), want)
	if len(answers) != len(want) {
		return fmt.Errorf("%d claims got %d answers", len(want), len(answers))
	}
	seen := map[netip.Addr]bool{}
	for i, a := range answers {
		if a.Err != nil {
			return a.Err
		}
		if err := fits(b, want[i], a.Grant); err != nil {
			return err
		}
		if seen[a.Grant.Address] {
			return fmt.Errorf("%s was granted twice", a.Grant.Address)
		}
		seen[a.Grant.Address] = true
	}
	return nil
}

func named(ctx context.Context, b Backend) error {
	for _, f := range []addr.Family{addr.V4, addr.V6} {
		c := claim(cluster, "web", f)
		c.Address = b.Addresses(f)[2]
		for range 2 {
			g, err := one(ctx, b, b.Driver(cluster), c)
			if err != nil {
				return err
			}
			if g.Address != c.Address {
				return fmt.Errorf("asked for %s, got %s", c.Address, g.Address)
			}
		}
	}
	return nil
}

func taken(ctx context.Context, b Backend) error {
	g, err := one(ctx, b, b.Driver(cluster), claim(cluster, "web", addr.V4))
	if err != nil {
		return err
	}
	other := claim(cluster, "other", addr.V4)
	other.Address = g.Address
	return refused(b.Driver(cluster).Claim(ctx, []ipam.Claim{other})[0].Err, ipam.KindTaken)
}

func outside(ctx context.Context, b Backend) error {
	for _, a := range []string{"203.0.113.222", "2001:db8:ffff::222"} {
		c := claim(cluster, "web", addr.FamilyOf(netip.MustParseAddr(a)))
		c.Address = netip.MustParseAddr(a)
		if err := refused(b.Driver(cluster).Claim(ctx, []ipam.Claim{c})[0].Err, ipam.KindInvalid); err != nil {
			return err
		}
	}
	return nil
}

func exhausted(ctx context.Context, b Backend) error {
	n := len(b.Addresses(addr.V4))
	answers := claimEach(ctx, b.Driver(cluster), claims(n+2, addr.V4))
	granted := 0
	for _, a := range answers {
		if a.Err == nil {
			granted++
		} else if err := refused(a.Err, ipam.KindExhausted); err != nil {
			return err
		}
	}
	if granted != n {
		return fmt.Errorf("%d of %d free addresses were granted", granted, n)
	}
	return nil
}

func released(ctx context.Context, b Backend) error {
	d := b.Driver(cluster)
	first, err := one(ctx, b, d, claim(cluster, "web", addr.V4))
	if err != nil {
		return err
	}
	if err := release(ctx, d, first); err != nil {
		return err
	}
	c := claim(cluster, "other", addr.V4)
	c.Address = first.Address
	_, err = one(ctx, b, d, c)
	return err
}

func releasedTwice(ctx context.Context, b Backend) error {
	d := b.Driver(cluster)
	g, err := one(ctx, b, d, claim(cluster, "web", addr.V4))
	if err != nil {
		return err
	}
	return errors.Join(release(ctx, d, g), release(ctx, d, g), release(ctx, b.Driver(cluster), g))
}

func stale(ctx context.Context, b Backend) error {
	d := b.Driver(cluster)
	old, err := one(ctx, b, d, claim(cluster, "old", addr.V4))
	if err != nil {
		return err
	}
	if err := release(ctx, d, old); err != nil {
		return err
	}
	c := claim(cluster, "new", addr.V4)
	c.Address = old.Address
	if _, err := one(ctx, b, d, c); err != nil {
		return err
	}
	if err := release(ctx, d, old); err != nil {
		return err
	}
	thief := claim(cluster, "thief", addr.V4)
	thief.Address = old.Address
	return refused(d.Claim(ctx, []ipam.Claim{thief})[0].Err, ipam.KindTaken)
}

func lostClaim(ctx context.Context, b Backend) error {
	c := claim(cluster, "web", addr.V4)
	b.LoseAnswer()
	if err := b.Driver(cluster).Claim(ctx, []ipam.Claim{c})[0].Err; err != nil {
		if err := refused(err, ipam.KindUnknown); err != nil {
			return err
		}
	}
	g, err := one(ctx, b, b.Driver(cluster), c)
	if err != nil {
		return err
	}
	n := len(b.Addresses(addr.V4))
	granted := map[netip.Addr]bool{g.Address: true}
	for _, a := range claimEach(ctx, b.Driver(cluster), claims(n-1, addr.V4)) {
		if a.Err != nil {
			return fmt.Errorf("the lost claim holds a second address: %w", a.Err)
		}
		granted[a.Grant.Address] = true
	}
	if len(granted) != n {
		return fmt.Errorf("%d claims got %d addresses", n, len(granted))
	}
	return nil
}

func lostRelease(ctx context.Context, b Backend) error {
	d := b.Driver(cluster)
	g, err := one(ctx, b, d, claim(cluster, "web", addr.V4))
	if err != nil {
		return err
	}
	b.LoseAnswer()
	if err := d.Release(ctx, []ipam.Grant{g})[0]; err != nil {
		if err := refused(err, ipam.KindUnknown); err != nil {
			return err
		}
	}
	return release(ctx, d, g)
}

func clusters(ctx context.Context, b Backend) error {
	here, err := one(ctx, b, b.Driver("here"), claim("here", "web", addr.V4))
	if err != nil {
		return err
	}
	there, err := one(ctx, b, b.Driver("there"), claim("there", "web", addr.V4))
	if err != nil {
		return err
	}
	if here.Address == there.Address {
		return fmt.Errorf("two clusters got %s", here.Address)
	}
	if err := release(ctx, b.Driver("here"), here); err != nil {
		return err
	}
	again, err := one(ctx, b, b.Driver("there"), claim("there", "web", addr.V4))
	if err == nil && again.Address != there.Address {
		err = fmt.Errorf("the release of one cluster moved the other from %s to %s", there.Address, again.Address)
	}
	return err
}

// claimConcurrently claims each of claims with its own driver, all at once.
func claimConcurrently(ctx context.Context, b Backend, list []ipam.Claim) []ipam.Answer {
	answers := make([]ipam.Answer, len(list))
	var all sync.WaitGroup
	for i, c := range list {
		d := b.Driver(cluster)
		all.Go(func() { answers[i] = d.Claim(ctx, []ipam.Claim{c})[0] })
	}
	all.Wait()
	return answers
}

func concurrent(ctx context.Context, b Backend) error {
	holder := map[netip.Addr]string{}
	n := len(b.Addresses(addr.V4))
	for _, a := range claimConcurrently(ctx, b, claims(n+2, addr.V4)) {
		if a.Err != nil {
			if err := refused(a.Err, ipam.KindExhausted); err != nil {
				return err
			}
			continue
		}
		if other, held := holder[a.Grant.Address]; held {
			return fmt.Errorf("%s was granted to %s and %s", a.Grant.Address, other, a.Grant.Key)
		}
		holder[a.Grant.Address] = a.Grant.Key
	}
	if len(holder) != n {
		return fmt.Errorf("%d of %d free addresses were granted", len(holder), n)
	}
	return nil
}

func concurrentRepetitions(ctx context.Context, b Backend) error {
	list := slices.Repeat([]ipam.Claim{claim(cluster, "web", addr.V4)}, 16)
	answers := claimConcurrently(ctx, b, list)
	for _, a := range answers {
		if a.Err != nil {
			return a.Err
		}
		if a.Grant.Address != answers[0].Grant.Address {
			return fmt.Errorf("one claim got %s and %s", answers[0].Grant.Address, a.Grant.Address)
		}
	}
	return nil
}

func capacity(ctx context.Context, b Backend) error {
	d := b.Driver(cluster)
	for i, c := range claims(3, addr.V4) {
		if _, err := one(ctx, b, d, c); err != nil {
			return err
		}
		got, err := d.Capacity(ctx)
		if err != nil {
			return err
		}
		if err := counted(b, got, uint64(i+1)); err != nil {
			return err
		}
	}
	return nil
}

// counted checks the capacity while n IPv4 addresses are in use. A backend need not know its size.
func counted(b Backend, got ipam.Capacity, n uint64) error {
	if !got.Known {
		return nil
	}
	for f, inUse := range map[addr.Family]uint64{addr.V4: n, addr.V6: 0} {
		if size := uint64(len(b.Addresses(f))); got.InUse[f] != inUse || got.Size[f] != size {
			return fmt.Errorf("%s: %d of %d addresses are in use, want %d of %d", f, got.InUse[f], got.Size[f], inUse, size)
		}
	}
	return nil
}
