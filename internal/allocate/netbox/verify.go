package netbox

import (
	"context"
	"fmt"
	"net/http"

	"purelb.io/purelb/internal/allocate/ipam"
)

// make sends a request that creates an address for c, and verifies the reply. Only 201 proves that
// the address was made.
func (p *Pool) make(ctx context.Context, what call, in parent, c ipam.Claim) (address, error) {
	var a address
	r, err := p.client.do(ctx, what, &a)
	if err != nil {
		return address{}, err
	}
	switch key, _ := p.key.of(a); {
	case r.status != http.StatusCreated:
		return address{}, p.client.strange(what, r, fmt.Sprintf("it is HTTP %d, not 201", r.status))
	case a.ID == 0:
		return address{}, p.client.strange(what, r, "it has no address")
	case key == "":
		return address{}, p.undo(ctx, what, a)
	case key != c.Key:
		return address{}, p.client.strange(what, r, "it has the claim "+short(key))
	case !in.has(a):
		return address{}, changed(p.client.strange(what, r, fmt.Sprintf("%s (id %d) is not of the %s", a.Address, a.ID, in)))
	case a.Status.Value != p.group.Status:
		return address{}, p.client.strange(what, r, fmt.Sprintf("%s has the status %s, not %s", a.Address, a.Status.Value, p.group.Status))
	}
	return a, nil
}

// changed returns e for an address that NetBox made outside of the prefix or range as Prepare found
// it. An operator has probably resized it or moved it to another VRF. The outcome of the claim stays
// unknown, but the cause makes the caller prepare the group again.
func changed(e *ipam.Error) *ipam.Error {
	cause := &ipam.Error{Kind: ipam.KindMisconfigured, Cause: e.Cause,
		Message: e.Message + "; or the prefix or range was changed in NetBox: it is read again"}
	return &ipam.Error{Kind: e.Kind, Message: cause.Message, RetryAfter: e.RetryAfter, Cause: cause}
}

// undo removes an address that NetBox made without its key, because each repetition would make
// another one. This happens if NetBox does not know the custom field, or if a proxy removes the
// length of the body.
func (p *Pool) undo(ctx context.Context, what call, made address) error {
	text := "NetBox made the address without its key, for it does not know the custom field " + p.group.Field + ", or something before it changed the request"
	if err := p.removeKeyless(ctx, made); err != nil {
		text += fmt.Sprintf("; remove %s by hand (%v)", p.object(made.ID), err)
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
