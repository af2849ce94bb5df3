package netbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
)

// Claim claims one address after the other. Each answer is a grant or an *ipam.Error. There are two
// errors with a surplus address: NetBox holds another address for the claim than the requested one,
// or the address also belongs to another user of NetBox. The caller must release the surplus first.
func (p *Pool) Claim(ctx context.Context, claims []ipam.Claim) []ipam.Answer {
	if p.group.Reserved {
		p.client.taking.Lock()
		defer p.client.taking.Unlock()
	}
	answers := make([]ipam.Answer, len(claims))
	var err error
	for i, c := range claims {
		if err != nil {
			answers[i].Err = err
			continue
		}
		c.Address = c.Address.Unmap()
		answers[i] = p.claim(ctx, c)
		err = away(answers[i].Err)
	}
	return answers
}

// away returns the error of what is not tried after err, or nil if err is not that of an outage.
func away(err error) error {
	var e *ipam.Error
	if !errors.As(err, &e) || e.Kind != ipam.KindUnavailable && e.Kind != ipam.KindUnknown {
		return nil
	}
	return &ipam.Error{Kind: ipam.KindUnavailable, Message: "not tried after an error: " + e.Message, RetryAfter: e.RetryAfter, Cause: e}
}

// claim claims an address. NetBox may already have one for c.
func (p *Pool) claim(ctx context.Context, c ipam.Claim) ipam.Answer {
	if problem := p.problem(c); problem != "" {
		return fail(&ipam.Error{Kind: ipam.KindInvalid, Message: fmt.Sprintf("cannot claim an address for %s in NetBox: %s", c.Service, problem)})
	}
	named, reserved := c.Address.IsValid(), p.group.Reserved
	held, err := p.find(ctx, c.Key)
	switch {
	case err != nil:
		return fail(err)
	case len(held) > 0:
		return p.answerHeld(ctx, c, held)
	case named && reserved:
		return p.takeNamed(ctx, c)
	case named:
		return p.claimNamed(ctx, c)
	case reserved:
		return p.takeFree(ctx, c)
	}
	return p.makeFree(ctx, c)
}

// fail returns the answer to a claim that is not granted.
func fail(err error) ipam.Answer { return ipam.Answer{Err: err} }

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

// answerHeld answers a claim for which NetBox has addresses. There is only one, unless
// the field is not unique. If there are several, it answers with the one that c asks
// for, or with the first.
func (p *Pool) answerHeld(ctx context.Context, c ipam.Claim, held []address) ipam.Answer {
	best := held[0]
	for _, a := range held {
		if a.ip() == c.Address {
			best = a
			break
		}
	}
	if uid := p.another(best); uid != "" {
		return fail(p.notOurs(c, best, uid))
	}
	g := p.grant(c.Key, best)
	var e *ipam.Error
	switch {
	case c.Address.IsValid() && best.ip() != c.Address:
		e = &ipam.Error{Kind: ipam.KindInvalid, Message: fmt.Sprintf("NetBox holds %s for %s, which asks for %s: the other one is to be released first", g.Address, c.Service, c.Address)}
	case !p.has(c.Family, best):
		e = &ipam.Error{Kind: ipam.KindInvalid, Message: fmt.Sprintf("NetBox holds %s for %s, which is not an %s address of the group %s: it is to be released first", best.Address, c.Service, c.Family, p.group.Name)}
	case c.Address.IsValid() && !p.group.Reserved:
		in, _ := p.parentOf(best)
		e = p.challenge(ctx, c, in, best)
	}
	answer := ipam.Answer{Grant: g}
	if e != nil {
		answer = fail(e)
	}
	for _, a := range held {
		if e != nil || a.ip() != best.ip() {
			answer.Surplus = append(answer.Surplus, a.ip())
		}
	}
	return answer
}

// has reports whether a is an address of the pool.
func (p *Pool) has(f addr.Family, a address) bool {
	if addr.FamilyOf(a.ip()) != f {
		return false
	}
	if p.group.Reserved {
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
	return ipam.Grant{Key: key, Address: a.ip(), Object: p.object(a.ID)}
}

// object returns the page of an address, for people.
func (p *Pool) object(id int64) string {
	return p.client.base + "ipam/ip-addresses/" + strconv.FormatInt(id, 10) + "/"
}

func (p *Pool) exhausted(f addr.Family) *ipam.Error {
	if !p.group.Reserved && len(p.parentsOf(f)) == 0 {
		return &ipam.Error{Kind: ipam.KindInvalid, Message: fmt.Sprintf("the group %s has no %s prefix or range in NetBox: give it one, or ask for the other family", p.group.Name, f)}
	}
	where := "of the tenant " + p.group.Tenant + " with the status reserved"
	if !p.group.Reserved {
		where = "in " + names(p.parentsOf(f))
	}
	return &ipam.Error{Kind: ipam.KindExhausted, Message: fmt.Sprintf("NetBox at %s has no free %s address %s: release some, or add more", p.client.base, f, where)}
}
