package netbox

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
)

// ourDescription is the beginning of the descriptions that this driver writes to reserved
// addresses, and removes again.
const ourDescription = "PureLB: "

// takeFree takes the lowest reserved address that is free.
func (p *Pool) takeFree(ctx context.Context, c ipam.Claim) ipam.Answer {
	free, err := p.reserved(ctx, url.Values{"family": {familyName(c.Family)}, "status": {"reserved"}})
	if err != nil {
		return fail(err)
	}
	free = slices.DeleteFunc(free, func(a address) bool { return addr.FamilyOf(a.ip()) != c.Family || !p.isFree(a) })
	slices.SortFunc(free, func(a, b address) int { return a.ip().Compare(b.ip()) })
	for _, a := range free {
		if answer, lost := p.take(ctx, c, a); !lost {
			return answer
		}
	}
	return fail(p.exhausted(c.Family))
}

// takeNamed takes the reserved address that c names.
func (p *Pool) takeNamed(ctx context.Context, c ipam.Claim) ipam.Answer {
	found, err := p.reserved(ctx, url.Values{"address": {c.Address.String()}})
	if err != nil {
		return fail(err)
	}
	found = slices.DeleteFunc(found, func(a address) bool { return a.ip() != c.Address })
	switch {
	case len(found) == 0:
		return fail(&ipam.Error{Kind: ipam.KindInvalid, Message: fmt.Sprintf("%s is not an address of the tenant %s in NetBox at %s: make it there with the status reserved, or ask for another one", c.Address, p.group.Tenant, p.client.base)})
	case p.isOf(found[0], c):
		return p.answerHeld(ctx, c, found[:1])
	case p.isFree(found[0]):
		if answer, lost := p.take(ctx, c, found[0]); !lost {
			return answer
		}
	}
	return fail(p.taken(c, found[0]))
}

// reserved lists addresses of the tenant.
func (p *Pool) reserved(ctx context.Context, query url.Values) ([]address, error) {
	query.Set("tenant", p.group.Tenant)
	query.Set("fields", addressFields)
	what := call{name: "look", path: "ipam/ip-addresses/", query: query, what: "list the addresses of the tenant " + p.group.Tenant}
	found, err := list[address](ctx, p.client, what)
	if err != nil {
		return nil, err
	}
	for _, a := range found {
		if a.Tenant == nil || a.Tenant.Slug != p.group.Tenant {
			return nil, p.client.strange(what, reply{}, fmt.Sprintf("it lists %s, which is not of the tenant", a.Address))
		}
	}
	return found, nil
}

// isFree reports whether a can be taken: it is reserved and has no key.
func (p *Pool) isFree(a address) bool {
	key, known := p.key.of(a)
	return known && key == "" && a.Status.Value == "reserved" && a.ip().IsValid()
}

// take takes the reserved address a for c. lost says that another client took it first.
func (p *Pool) take(ctx context.Context, c ipam.Claim, a address) (answer ipam.Answer, lost bool) {
	now, etag, err := p.read(ctx, a.ID)
	switch {
	case refused(err).status == http.StatusNotFound:
		return ipam.Answer{}, true
	case err != nil:
		return fail(err), false
	case p.isOf(now, c):
		return p.answerHeld(ctx, c, []address{now}), false
	case !p.isFree(now) || now.ip() != a.ip():
		return ipam.Answer{}, true
	}
	body := map[string]any{"status": "active"}
	if now.Description == "" {
		body["description"] = p.describe(ourDescription, c)
	}
	p.key.write(body, c.Key)
	what := call{name: callClaim, method: http.MethodPatch, path: fmt.Sprintf("ipam/ip-addresses/%d/", a.ID),
		body: body, ifMatch: p.ifMatch(etag), what: fmt.Sprintf("take the reserved address %s", a.Address)}
	return p.patch(ctx, c, what, a)
}

// ifMatch returns the condition of a change. Before NetBox 4.6 there is none.
func (p *Pool) ifMatch(etag string) string {
	if !p.etags {
		return ""
	}
	return etag
}

// patch sends the change that takes a, and checks that NetBox has made it.
func (p *Pool) patch(ctx context.Context, c ipam.Claim, what call, a address) (answer ipam.Answer, lost bool) {
	var taken address
	r, err := p.client.do(ctx, what, &taken)
	said := refused(err)
	switch {
	case said.status == http.StatusPreconditionFailed:
		return ipam.Answer{}, true
	case said.status == http.StatusBadRequest && said.complaints.have(complaint.notUnique):
		return p.lookAgain(ctx, c), false
	case err == nil && what.ifMatch == "":
		// Without ETags the last change wins, so read again which key the address has.
		if taken, _, err = p.read(ctx, a.ID); err != nil {
			err = asUnknown(err)
		} else if key, _ := p.key.of(taken); key != c.Key {
			return ipam.Answer{}, true
		}
	}
	if err != nil {
		return fail(err), false
	}
	if key, _ := p.key.of(taken); key != c.Key || taken.ID != a.ID || taken.ip() != a.ip() || taken.Status.Value != "active" {
		return fail(p.client.strange(what, r, fmt.Sprintf("%s has the key %q and the status %s", taken.Address, short(key), taken.Status.Value))), false
	}
	return ipam.Answer{Grant: p.grant(c.Key, taken)}, false
}

// restore sets the address to reserved again. If another client changes the address meanwhile,
// restore reads it again.
func (p *Pool) restore(ctx context.Context, g ipam.Grant, a address) error {
	var err error
	for range mostRounds {
		now, etag, look := p.read(ctx, a.ID)
		if refused(look).status == http.StatusNotFound {
			return nil
		}
		if look != nil {
			return look
		}
		if key, _ := p.key.of(now); key != g.Key {
			return nil
		}
		body := map[string]any{"status": "reserved"}
		if strings.HasPrefix(now.Description, ourDescription) {
			body["description"] = ""
		}
		p.key.write(body, "")
		what := call{name: "release", method: http.MethodPatch, path: fmt.Sprintf("ipam/ip-addresses/%d/", a.ID),
			body: body, ifMatch: p.ifMatch(etag), what: fmt.Sprintf("release the address %s", a.Address)}
		var freed address
		var r reply
		r, err = p.client.do(ctx, what, &freed)
		if refused(err).status == http.StatusPreconditionFailed {
			continue
		}
		if err == nil && !p.isFree(freed) {
			err = p.client.strange(what, r, fmt.Sprintf("%s has the status %s", freed.Address, freed.Status.Value))
		}
		return err
	}
	return err
}
