package netbox

import (
	"context"
	"fmt"
	"net/http"

	"purelb.io/purelb/internal/allocate/ipam"
)

// mostRounds limits how often a claim is sent without progress. Other clients may each time take the
// address that was free a moment ago.
const mostRounds = 4

// makeFree creates the first free address in one of the prefixes and ranges.
func (p *Pool) makeFree(ctx context.Context, c ipam.Claim) ipam.Answer {
	for _, in := range p.parentsOf(c.Family) {
		if answer, full := p.makeIn(ctx, in, c); !full {
			return answer
		}
	}
	return fail(p.exhausted(c.Family))
}

// makeIn creates the first free address of a prefix or range, or says that it is full. If the key is
// not unique, there is already an address with it: a request without an answer created it, or another
// allocator did.
func (p *Pool) makeIn(ctx context.Context, in parent, c ipam.Claim) (answer ipam.Answer, full bool) {
	what := call{name: callClaim, method: http.MethodPost, path: fmt.Sprintf("%s%d/available-ips/", in.kind.path(), in.id),
		body: p.body(c), what: fmt.Sprintf("claim 1 address of the %s", in)}
	for range mostRounds {
		made, err := p.make(ctx, what, in, c)
		said := refused(err)
		switch {
		case err == nil:
			return ipam.Answer{Grant: p.grant(c.Key, made)}, false
		case said.status == http.StatusConflict:
			return ipam.Answer{}, true
		case said.status == http.StatusBadRequest && said.complaints.have(complaint.notUnique):
			return p.lookAgain(ctx, c), false
		case said.status == http.StatusBadRequest && said.complaints.have(complaint.duplicate) && in.kind == kindPrefix:
			// A user of the web interface, which takes no lock, took the address first.
		case said.status == http.StatusBadRequest && said.complaints.have(complaint.duplicate):
			return fail(p.client.report(misconfigured("%s", p.client.about(what, fmt.Sprintf("HTTP 400 %s: NetBox offers an address that exists with another mask: use a prefix in place of the range, or upgrade NetBox to 4.6.3 or newer", said.complaints))))), false
		default:
			return fail(err), false
		}
	}
	return fail(p.client.report(&ipam.Error{Kind: ipam.KindUnavailable,
		Message: fmt.Sprintf("claim addresses of %s in NetBox at %s: other clients take what is free, again and again: it is tried again", in, p.client.base)})), false
}

// body describes the address that NetBox must create for c.
func (p *Pool) body(c ipam.Claim) map[string]any {
	body := map[string]any{"status": p.group.Status, "description": p.describe("", c)}
	p.key.write(body, c.Key)
	if c.Hostname != "" {
		body["dns_name"] = c.Hostname
	}
	if p.group.Role != "" {
		body["role"] = p.group.Role
	}
	if p.tenant != nil {
		body["tenant"] = p.tenant
	}
	if len(p.tags) > 0 {
		body["tags"] = p.tags
	}
	return body
}

// lookAgain answers a claim whose key NetBox refused as not unique.
func (p *Pool) lookAgain(ctx context.Context, c ipam.Claim) ipam.Answer {
	held, err := p.find(ctx, c.Key)
	switch {
	case err != nil:
		return fail(asUnknown(err))
	case len(held) > 0:
		return p.answerHeld(ctx, c, held)
	}
	return fail(misconfigured("NetBox at %s holds an address for %s that the token cannot see: let its user view all IP addresses of the group", p.client.base, c.Service))
}
