package netbox

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/ipam"
)

// ourDescription is the beginning of the descriptions that this driver writes to reserved
// addresses, and removes again.
const ourDescription = "PureLB: "

// startTaking waits until no other group of this client takes reserved addresses.
func (p *Pool) startTaking(ctx context.Context) (done func(), err error) {
	if p.group.Mode != ModeReserved {
		return func() {}, nil
	}
	select {
	case p.client.taking <- struct{}{}:
		return func() { <-p.client.taking }, nil
	case <-ctx.Done():
		return nil, &ipam.Error{Kind: ipam.KindUnavailable, Cause: ctx.Err(), Message: p.client.about(call{what: "take reserved addresses"}, "not tried, for other groups of the server took all the time")}
	}
}

// takeFree takes reserved addresses of a family.
func (p *Pool) takeFree(ctx context.Context, b *board, f addr.Family, waiting []ipam.Claim) {
	free, err := p.reserved(ctx, url.Values{"family": {familyName(f)}, "status": {"reserved"}})
	if err != nil {
		b.fail(waiting, err)
		return
	}
	free = slices.DeleteFunc(free, func(a address) bool { return addr.FamilyOf(a.ip()) != f || !p.isFree(a) })
	slices.SortFunc(free, func(a, b address) int { return a.ip().Compare(b.ip()) })
	for _, c := range waiting {
		for len(free) > 0 && b.stop == nil {
			a := free[0]
			free = free[1:]
			if p.take(ctx, b, c, a) {
				break
			}
		}
	}
}

// takeNamed takes the reserved address that c names.
func (p *Pool) takeNamed(ctx context.Context, b *board, c ipam.Claim) {
	only := []ipam.Claim{c}
	found, err := p.reserved(ctx, url.Values{"address": {c.Address.String()}})
	if err != nil {
		b.fail(only, err)
		return
	}
	found = slices.DeleteFunc(found, func(a address) bool { return a.ip() != c.Address })
	if len(found) == 0 {
		b.fail(only, &ipam.Error{Kind: ipam.KindInvalid, Message: fmt.Sprintf("%s is not an address of the tenant %s in NetBox at %s: make it there with the status reserved, or ask for another one", c.Address, p.group.Tenant, p.client.base)})
		return
	}
	if p.isOf(found[0], c) {
		p.answerHeld(ctx, b, c, found[:1])
		return
	}
	if !p.isFree(found[0]) || !p.take(ctx, b, c, found[0]) {
		b.fail(only, p.taken(c, found[0]))
	}
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

// take takes the reserved address a for c. If another client took it first, take returns false and
// gives c no answer.
func (p *Pool) take(ctx context.Context, b *board, c ipam.Claim, a address) bool {
	only := []ipam.Claim{c}
	now, etag, err := p.read(ctx, a.ID)
	switch {
	case refused(err).status == http.StatusNotFound:
		return false
	case err != nil:
		b.fail(only, err)
		return true
	case p.isOf(now, c):
		p.answerHeld(ctx, b, c, []address{now})
		return true
	case !p.isFree(now) || now.ip() != a.ip():
		return false
	}
	body := map[string]any{"status": "active"}
	if now.Description == "" {
		body["description"] = p.describe(ourDescription, c)
	}
	p.key.write(body, c.Key)
	what := call{name: "claim", method: http.MethodPatch, path: fmt.Sprintf("ipam/ip-addresses/%d/", a.ID), claims: 1,
		body: body, ifMatch: p.ifMatch(etag), what: fmt.Sprintf("take the reserved address %s", a.Address)}
	return p.patch(ctx, b, c, what, a)
}

// ifMatch returns the condition of a change. Before NetBox 4.6 there is none.
func (p *Pool) ifMatch(etag string) string {
	if !p.etags {
		return ""
	}
	return etag
}

// patch sends the change that takes a, and checks that NetBox has made it.
func (p *Pool) patch(ctx context.Context, b *board, c ipam.Claim, what call, a address) bool {
	only := []ipam.Claim{c}
	var taken address
	r, err := p.client.do(ctx, what, &taken)
	said := refused(err)
	switch {
	case said.status == http.StatusPreconditionFailed:
		return false
	case said.status == http.StatusBadRequest && hasComplaint(said.complaints.of(), complaint.notUnique):
		p.lookAgain(ctx, b, only)
		return true
	case err == nil && what.ifMatch == "":
		// Without ETags the last change wins, so read again which key the address has.
		if taken, _, err = p.read(ctx, a.ID); err != nil {
			err = asUnknown(err)
		} else if key, _ := p.key.of(taken); key != c.Key {
			return false
		}
	}
	if err != nil {
		b.fail(only, err)
		return true
	}
	if key, _ := p.key.of(taken); key != c.Key || taken.ID != a.ID || taken.ip() != a.ip() || taken.Status.Value != "active" {
		b.fail(only, p.client.strange(what, r, fmt.Sprintf("%s has the key %q and the status %s", taken.Address, short(key), taken.Status.Value)))
		return true
	}
	b.grant(c, p.grant(c.Key, taken))
	return true
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
