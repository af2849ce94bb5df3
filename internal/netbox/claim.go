package netbox

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/ipam"
)

// Claim claims addresses. Each answer is a grant or an *ipam.Error. There are two errors with a
// surplus address: NetBox holds another address for the claim than the requested one, or the
// address also belongs to another user of NetBox. The caller must release the surplus first.
func (p *Pool) Claim(ctx context.Context, claims []ipam.Claim) []ipam.Answer {
	b := newBoard(claims)
	done, err := p.startTaking(ctx)
	if err != nil {
		b.fail(b.claims, err)
		return b.list(claims)
	}
	defer done()
	for _, c := range b.waiting(anyClaim) {
		if problem := p.problem(c); problem != "" {
			b.fail([]ipam.Claim{c}, &ipam.Error{Kind: ipam.KindInvalid,
				Message: fmt.Sprintf("cannot claim an address for %s in NetBox: %s", c.Service, problem)})
		}
	}
	p.look(ctx, b, b.waiting(anyClaim))
	for _, c := range b.waiting(namedClaim) {
		if b.stop == nil {
			p.claimNamed(ctx, b, c)
		}
	}
	for _, f := range []addr.Family{addr.V4, addr.V6} {
		if b.stop == nil {
			p.claimFree(ctx, b, f)
		}
	}
	b.failRest(b.waiting(anyClaim))
	return b.list(claims)
}

// problem returns why c can never be granted, or "".
func (p *Pool) problem(c ipam.Claim) string {
	if problem := keyProblem(c.Key); problem != "" {
		return problem
	}
	if c.Family != addr.V4 && c.Family != addr.V6 {
		return "it is of no family"
	}
	if c.Address.IsValid() && addr.FamilyOf(c.Address) != c.Family {
		return fmt.Sprintf("%s is not an %s address", c.Address, c.Family)
	}
	return ""
}

// look answers the claims for which NetBox already has an address.
func (p *Pool) look(ctx context.Context, b *board, claims []ipam.Claim) {
	if len(claims) == 0 {
		return
	}
	found, err := p.find(ctx, keysOf(claims))
	if err != nil {
		b.fail(claims, err)
		return
	}
	for _, c := range claims {
		if held := found[c.Key]; len(held) > 0 {
			p.answerHeld(ctx, b, c, held)
		}
	}
}

// answerHeld answers a claim for which NetBox has addresses. There is only one, unless
// the field is not unique. If there are several, it answers with the one that c asks
// for, or with the first.
func (p *Pool) answerHeld(ctx context.Context, b *board, c ipam.Claim, held []address) {
	best := held[0]
	for _, a := range held {
		if a.ip() == c.Address {
			best = a
			break
		}
	}
	if uid := p.another(best); uid != "" {
		b.answers[c.Key] = ipam.Answer{Err: p.notOurs(c, best, uid)}
		return
	}
	g := p.grant(c.Key, best)
	var e *ipam.Error
	switch {
	case c.Address.IsValid() && best.ip() != c.Address:
		e = &ipam.Error{Kind: ipam.KindInvalid, Message: fmt.Sprintf("NetBox holds %s for %s, which asks for %s: the other one is to be released first", g.Address, c.Service, c.Address)}
	case !p.has(c.Family, best):
		e = &ipam.Error{Kind: ipam.KindInvalid, Message: fmt.Sprintf("NetBox holds %s for %s, which is not an %s address of the group %s: it is to be released first", best.Address, c.Service, c.Family, p.group.Name)}
	case c.Address.IsValid() && p.group.Mode == ModePrefix:
		in, _ := p.parentOf(best)
		e = p.challenge(ctx, c, in, best)
	}
	answer := ipam.Answer{Grant: g}
	if e != nil {
		answer = ipam.Answer{Err: e}
	}
	for _, a := range held {
		if e != nil || a.ip() != best.ip() {
			answer.Surplus = append(answer.Surplus, a.ip())
		}
	}
	b.answers[c.Key] = answer
}

// has reports whether a is an address of the pool.
func (p *Pool) has(f addr.Family, a address) bool {
	if addr.FamilyOf(a.ip()) != f {
		return false
	}
	if p.group.Mode == ModeReserved {
		return a.Tenant != nil && a.Tenant.Slug == p.group.Tenant
	}
	_, ok := p.parentOf(a)
	return ok
}

// parentOf returns the prefix or range that contains a.
func (p *Pool) parentOf(a address) (parent, bool) {
	i := slices.IndexFunc(p.parents, func(in parent) bool { return in.has(a) })
	if i < 0 {
		return parent{}, false
	}
	return p.parents[i], true
}

// has reports whether the prefix or range contains a.
func (p parent) has(a address) bool {
	return a.ip().IsValid() && p.span.Contains(a.ip()) && sameID(p.vrf, a.VRF)
}

// grant returns the grant for an address.
func (p *Pool) grant(key string, a address) ipam.Grant {
	g := ipam.Grant{Key: key, Address: a.ip(), Object: p.object(a.ID), Created: a.created()}
	if prefix, err := a.prefix(); err == nil {
		g.Bits = prefix.Bits()
	}
	return g
}

// object returns the page of an address, for people.
func (p *Pool) object(id int64) string {
	return p.client.base + "ipam/ip-addresses/" + strconv.FormatInt(id, 10) + "/"
}

// claimFree claims addresses of a family. NetBox chooses them.
func (p *Pool) claimFree(ctx context.Context, b *board, f addr.Family) {
	waiting := b.waiting(unnamed(f))
	if len(waiting) == 0 {
		return
	}
	if p.group.Mode == ModeReserved {
		p.takeFree(ctx, b, f, waiting)
	} else {
		p.makeFree(ctx, b, f, waiting)
	}
	waiting = b.waiting(unnamed(f))
	b.failRest(waiting)
	if b.stop == nil {
		b.fail(waiting, p.exhausted(f))
	} else if b.stop.Kind == ipam.KindMisconfigured {
		b.stop = nil // the other family has other prefixes
	}
}

func (p *Pool) exhausted(f addr.Family) *ipam.Error {
	if p.group.Mode == ModePrefix && len(p.parentsOf(f)) == 0 {
		return &ipam.Error{Kind: ipam.KindInvalid, Message: fmt.Sprintf("the group %s has no %s prefix or range in NetBox: give it one, or ask for the other family", p.group.Name, f)}
	}
	where := "of the tenant " + p.group.Tenant + " with the status reserved"
	if p.group.Mode == ModePrefix {
		where = "in " + names(p.parentsOf(f))
	}
	return &ipam.Error{Kind: ipam.KindExhausted, Message: fmt.Sprintf("NetBox at %s has no free %s address %s: release some, or add more", p.client.base, f, where)}
}
