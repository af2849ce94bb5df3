package netbox

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"purelb.io/purelb/internal/ipam"
)

// readMade reads an object or a list of objects. Only 201 proves that they were made: if a POST
// became a GET, the answer is 200 and a list of free addresses.
func readMade(r reply, raw json.RawMessage) ([]address, error) {
	if r.status != http.StatusCreated {
		return nil, fmt.Errorf("it is HTTP %d, not 201", r.status)
	}
	var several []address
	if json.Unmarshal(raw, &several) == nil {
		return several, nil
	}
	var one address
	if err := json.Unmarshal(raw, &one); err != nil {
		return nil, fmt.Errorf("it has no address: %w", err)
	}
	return []address{one}, nil
}

// verify grants what the reply proves to be made for the claims.
func (p *Pool) verify(ctx context.Context, b *board, what call, in parent, batch []ipam.Claim, made []address) error {
	byKey := map[string]address{}
	var keyless []address
	for _, a := range made {
		if key, _ := p.key.of(a); key != "" {
			byKey[key] = a
		} else {
			keyless = append(keyless, a)
		}
	}
	if len(keyless) > 0 {
		return p.undo(ctx, what, keyless)
	}
	var wrong []ipam.Claim
	problem, outside := "", false
	for _, c := range batch {
		a, ok := byKey[c.Key]
		switch {
		case !ok:
			problem = "it lacks the claim " + c.Key
		case a.ID == 0 || !in.has(a):
			problem, outside = fmt.Sprintf("%s (id %d) is not of the %s", a.Address, a.ID, in), true
		case a.Status.Value != p.group.Status:
			problem = fmt.Sprintf("%s has the status %s, not %s", a.Address, a.Status.Value, p.group.Status)
		default:
			b.grant(c, p.grant(c.Key, a))
			continue
		}
		wrong = append(wrong, c)
	}
	if len(wrong) > 0 {
		e := p.client.strange(what, reply{status: http.StatusCreated}, problem)
		if outside {
			e = changed(e)
		}
		b.fail(wrong, e)
	}
	return nil
}

// changed returns e for an address that NetBox made outside of the prefix or range as Prepare found
// it. An operator has probably resized it or moved it to another VRF. The outcome of the claim stays
// unknown, but the cause makes the caller prepare the group again.
func changed(e *ipam.Error) *ipam.Error {
	cause := &ipam.Error{Kind: ipam.KindMisconfigured, Cause: e.Cause,
		Message: e.Message + "; or the prefix or range was changed in NetBox: it is read again"}
	return &ipam.Error{Kind: e.Kind, Message: cause.Message, RetryAfter: e.RetryAfter, Cause: cause}
}

// undo removes addresses that NetBox made without their keys, because each repetition would make
// more. This happens if NetBox does not know the custom field, or if a proxy removes the length of
// the body.
func (p *Pool) undo(ctx context.Context, what call, made []address) error {
	text := "NetBox made the address without its key, for it does not know the custom field " + p.group.Field + ", or something before it changed the request"
	for _, a := range made {
		if err := p.removeKeyless(ctx, a); err != nil {
			text += fmt.Sprintf("; remove %s by hand (%v)", p.object(a.ID), err)
		}
	}
	return p.client.report(misconfigured("%s", p.client.about(what, text+"; make the custom field for IP addresses (type text, unique)")))
}

// removeKeyless removes an address that NetBox has just made, if it still is as it was
// made and has no key.
func (p *Pool) removeKeyless(ctx context.Context, made address) error {
	now, _, err := p.read(ctx, made.ID)
	if err != nil {
		return err
	}
	if key, _ := p.key.of(now); key != "" || now.Address != made.Address || now.Created != made.Created {
		return fmt.Errorf("it is not as it was made")
	}
	return p.remove(ctx, made.ID, "")
}
