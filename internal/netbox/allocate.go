package netbox

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/ipam"
)

const (
	// largestBatch is how many addresses one request asks for. NetBox creates about 22 addresses
	// per second (4.4) or 100 (4.6), and other claims wait for the end of the request.
	largestBatch = 40
	// mostRounds limits how often a batch is sent without progress. Other clients may each time
	// take the addresses that were free a moment ago.
	mostRounds = 4
)

// makeFree creates addresses in one parent after the other. Claims for which no address
// is left stay without an answer.
func (p *Pool) makeFree(ctx context.Context, b *board, f addr.Family, waiting []ipam.Claim) {
	for _, in := range p.parentsOf(f) {
		for n := 0; len(waiting) > 0 && b.stop == nil; waiting = waiting[n:] {
			n = min(len(waiting), largestBatch)
			left, full := p.makeBatch(ctx, b, in, waiting[:n])
			if full {
				waiting = append(left, waiting[n:]...)
				break
			}
		}
	}
}

// makeBatch creates one address for each claim. If the parent is full, it returns the
// claims that got none, and true.
func (p *Pool) makeBatch(ctx context.Context, b *board, in parent, batch []ipam.Claim) ([]ipam.Claim, bool) {
	for range mostRounds {
		err := p.make(ctx, b, in, batch)
		switch said := refused(err); {
		case err == nil:
			return nil, false
		case said.status == http.StatusConflict && len(batch) == 1:
			return batch, true
		case said.status == http.StatusConflict:
			free, err := p.free(ctx, in, len(batch))
			if err != nil {
				b.fail(batch, err)
				return nil, false
			}
			if free == 0 {
				return batch, true
			}
			if free < len(batch) {
				return p.makeParts(ctx, b, in, batch, free)
			}
		case said.status == http.StatusBadRequest && len(batch) > 1 && !said.complaints.tellApart(len(batch)):
			return p.makeParts(ctx, b, in, batch, len(batch)/2)
		case said.status == http.StatusBadRequest:
			if batch = p.sortOut(ctx, b, in, batch, said.complaints); len(batch) == 0 {
				return nil, false
			}
		default:
			b.fail(batch, err)
			return nil, false
		}
	}
	b.fail(batch, p.client.report(&ipam.Error{Kind: ipam.KindUnavailable,
		Message: fmt.Sprintf("claim addresses of %s in NetBox at %s: other clients take what is free, again and again: it is tried again", in, p.client.base)}))
	return nil, false
}

// makeParts creates a batch in two parts, because NetBox creates all addresses of a
// list or none.
func (p *Pool) makeParts(ctx context.Context, b *board, in parent, batch []ipam.Claim, first int) ([]ipam.Claim, bool) {
	left, full := p.makeBatch(ctx, b, in, batch[:first])
	if full {
		return append(left, batch[first:]...), true
	}
	if b.stop != nil {
		return nil, false
	}
	return p.makeBatch(ctx, b, in, batch[first:])
}

// make sends one claiming request. If it returns an error, none of the claims has an
// answer, and the error is for all of them.
func (p *Pool) make(ctx context.Context, b *board, in parent, batch []ipam.Claim) error {
	what := p.claiming(in, batch)
	var raw json.RawMessage
	r, err := p.client.do(ctx, what, &raw)
	if err != nil {
		return err
	}
	made, err := readMade(r, raw)
	if err != nil {
		return p.client.strange(what, r, err.Error())
	}
	return p.verify(ctx, b, what, in, batch, made)
}

// claiming returns the request for a batch: an object for one address, a list for
// several.
func (p *Pool) claiming(in parent, batch []ipam.Claim) call {
	what := call{name: "claim", method: http.MethodPost, path: fmt.Sprintf("%s%d/available-ips/", in.kind.path(), in.id),
		claims: len(batch), what: fmt.Sprintf("claim %s of the %s", addresses(len(batch)), in)}
	if len(batch) == 1 {
		what.body = p.body(batch[0])
		return what
	}
	var bodies []map[string]any
	for _, c := range batch {
		bodies = append(bodies, p.body(c))
	}
	what.body = bodies
	return what
}

func addresses(n int) string {
	if n == 1 {
		return "1 address"
	}
	return fmt.Sprintf("%d addresses", n)
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

// sortOut answers the claims that NetBox refused, and returns the others. If a key is
// not unique, there is already an address with it: a request without an answer created
// it, or another allocator did.
func (p *Pool) sortOut(ctx context.Context, b *board, in parent, batch []ipam.Claim, said complaints) []ipam.Claim {
	what := p.claiming(in, batch)
	var good, held []ipam.Claim
	for i, c := range batch {
		about := said.each[i]
		if len(batch) == 1 {
			about = said.of()
		}
		switch {
		case len(about) == 0:
			good = append(good, c)
		case hasComplaint(about, complaint.notUnique):
			held = append(held, c)
		case hasComplaint(about, complaint.duplicate) && in.kind == Prefix:
			good = append(good, c) // a user of the web interface, which takes no lock, took the address first
		case hasComplaint(about, complaint.duplicate):
			b.fail([]ipam.Claim{c}, p.client.report(misconfigured("%s", p.client.about(what, fmt.Sprintf("HTTP 400 %s: NetBox offers an address that exists with another mask: use a prefix in place of the range, or upgrade NetBox to 4.6.3 or newer", complaints{whole: about})))))
		default:
			list := complaints{whole: about}
			b.fail([]ipam.Claim{c}, &ipam.Error{Kind: list.kind(), Message: p.client.about(what, fmt.Sprintf("HTTP 400 %s: %s", list, list.cure()))})
		}
	}
	p.lookAgain(ctx, b, held)
	return good
}

func hasComplaint(list []complaint, is func(complaint) bool) bool {
	for _, c := range list {
		if is(c) {
			return true
		}
	}
	return false
}

// lookAgain answers claims whose keys NetBox refused as not unique.
func (p *Pool) lookAgain(ctx context.Context, b *board, held []ipam.Claim) {
	if len(held) == 0 {
		return
	}
	found, err := p.find(ctx, keysOf(held))
	if err != nil {
		b.fail(held, asUnknown(err))
		return
	}
	for _, c := range held {
		if list := found[c.Key]; len(list) > 0 {
			p.answerHeld(ctx, b, c, list)
		} else {
			b.answers[c.Key] = ipam.Answer{Err: misconfigured("NetBox at %s holds an address for %s that the token cannot see: let its user view all IP addresses of the group", p.client.base, c.Service)}
		}
	}
}

// free returns how many addresses of a parent are free, up to most.
func (p *Pool) free(ctx context.Context, in parent, most int) (int, error) {
	what := call{name: "free", method: http.MethodGet, path: fmt.Sprintf("%s%d/available-ips/", in.kind.path(), in.id),
		query: url.Values{"limit": {strconv.Itoa(most)}}, what: fmt.Sprintf("look for free addresses of the %s", in)}
	var list []json.RawMessage
	r, err := p.client.do(ctx, what, &list)
	if err == nil && list == nil {
		return 0, p.client.strange(what, r, "it is not a list")
	}
	return len(list), err
}
