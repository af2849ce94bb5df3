package netbox

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
)

// claimNamed claims the address that c names.
func (p *Pool) claimNamed(ctx context.Context, c ipam.Claim) ipam.Answer {
	in, refusal := p.parentFor(c)
	if refusal != nil {
		return fail(refusal)
	}
	holders, err := p.holders(ctx, c.Address, in)
	switch {
	case err != nil:
		return fail(err)
	case len(holders) > 0 && p.isOf(holders[0], c):
		return p.answerHeld(ctx, c, holders)
	case len(holders) > 0:
		return fail(p.taken(c, holders[0]))
	}
	return p.makeNamed(ctx, c, in)
}

// parentFor returns the prefix or range that contains the address of c. NetBox does not
// check that: it creates any address, even that of the network.
func (p *Pool) parentFor(c ipam.Claim) (parent, *ipam.Error) {
	invalid := func(format string, args ...any) *ipam.Error {
		return &ipam.Error{Kind: ipam.KindInvalid, Message: fmt.Sprintf(format, args...)}
	}
	for _, in := range p.parentsOf(c.Family) {
		switch {
		case !in.span.Contains(c.Address):
			continue
		case !in.usable().Contains(c.Address):
			return parent{}, invalid("%s is the network or broadcast address of the %s: ask for another one", c.Address, in)
		case !addr.Assignable(c.Address):
			return parent{}, invalid("%s cannot be the address of a Service: ask for another one", c.Address)
		}
		return in, nil
	}
	return parent{}, invalid("%s is not an address of the group %s (%s): ask for one of the group", c.Address, p.group.Name, names(p.parents))
}

// holders returns all addresses in NetBox with this number, with any mask, lowest id
// first.
func (p *Pool) holders(ctx context.Context, ip netip.Addr, in parent) ([]address, error) {
	vrf := "null"
	if in.vrf != nil {
		vrf = strconv.FormatInt(in.vrf.ID, 10)
	}
	what := call{name: "look", path: "ipam/ip-addresses/", what: fmt.Sprintf("look at what holds %s", ip),
		query: url.Values{"address": {ip.String()}, "vrf_id": {vrf}, "fields": {addressFields}}}
	found, err := list[address](ctx, p.client, what)
	if err != nil {
		return nil, err
	}
	for _, a := range found {
		if a.ip() != ip || !sameID(a.VRF, in.vrf) {
			return nil, p.client.strange(what, reply{}, fmt.Sprintf("it lists %s, which was not asked for", a.Address))
		}
	}
	return found, nil
}

// isOf reports whether an address has the key of c. NetBox may have created it by a request that
// finished after the driver looked for the key.
func (p *Pool) isOf(a address, c ipam.Claim) bool {
	key, _ := p.key.of(a)
	return key == c.Key
}

func (p *Pool) taken(c ipam.Claim, holder address) *ipam.Error {
	text := "another user of NetBox"
	if key, _ := p.key.of(holder); key != "" {
		text = "the claim " + short(key)
	} else if holder.Description != "" {
		text = fmt.Sprintf("%q", short(holder.Description))
	}
	return &ipam.Error{Kind: ipam.KindTaken, Message: fmt.Sprintf("NetBox holds %s for %s (%s): ask for another address, or release it there", c.Address, text, p.object(holder.ID))}
}

// makeNamed creates the address. If an address with the same number was created earlier, makeNamed
// gives the new one back. NetBox creates an address twice with some roles, and in a VRF without
// unique space.
func (p *Pool) makeNamed(ctx context.Context, c ipam.Claim, in parent) ipam.Answer {
	body := p.body(c)
	body["address"] = netip.PrefixFrom(c.Address, in.bits).String()
	body["vrf"] = nil
	if in.vrf != nil {
		body["vrf"] = in.vrf.ID
	}
	what := call{name: callClaim, method: http.MethodPost, path: "ipam/ip-addresses/", body: body,
		what: fmt.Sprintf("claim %s of the %s", c.Address, in)}
	made, err := p.make(ctx, what, in, c)
	switch said := refused(err); {
	case said.status == http.StatusBadRequest && said.complaints.have(complaint.notUnique):
		return p.lookAgain(ctx, c)
	case err != nil:
		return fail(err)
	case made.ip() != c.Address:
		return fail(p.client.strange(what, reply{status: http.StatusCreated}, "it has "+made.Address))
	}
	e := p.challenge(ctx, c, in, made)
	switch {
	case e == nil:
		return ipam.Answer{Grant: p.grant(c.Key, made)}
	case e.Kind == ipam.KindTaken && p.remove(ctx, made.ID, c.Key) != nil:
		return ipam.Answer{Err: e, Surplus: []netip.Addr{made.ip()}}
	}
	return fail(e)
}

// challenge refuses an address that another user of NetBox had earlier. NetBox numbers addresses in
// the order of their creation, so all clients choose the same winner.
func (p *Pool) challenge(ctx context.Context, c ipam.Claim, in parent, ours address) *ipam.Error {
	holders, err := p.holders(ctx, c.Address, in)
	switch {
	case err != nil:
		return asUnknown(err)
	case len(holders) > 0 && holders[0].ID != ours.ID:
		return p.taken(c, holders[0])
	}
	return nil
}

// asUnknown returns the error of a look after a change. The outcome of the change is unknown.
func asUnknown(err error) *ipam.Error {
	e := &ipam.Error{Kind: ipam.KindUnknown, Message: err.Error(), Cause: err}
	if below, ok := err.(*ipam.Error); ok { //nolint:errorlint // the driver's own errors are not wrapped
		e.RetryAfter = below.RetryAfter
	}
	return e
}
