package netbox

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
)

// Release gives one grant back after the other. It first looks for the key, and removes only an
// address that has both the key and the number of the grant. So an outdated grant does no harm, and
// Release never changes an address without a key. A grant without an address means all addresses of
// its holder: a former allocator may have sent a claim that this one does not know.
func (p *Pool) Release(ctx context.Context, grants []ipam.Grant) []error {
	errs := make([]error, len(grants))
	var down error
	for i, g := range grants {
		if errs[i] = down; down == nil {
			errs[i] = p.release(ctx, g)
			down = away(errs[i])
		}
	}
	return errs
}

func (p *Pool) release(ctx context.Context, g ipam.Grant) error {
	if problem := keyProblem(g.Key); problem != "" {
		return &ipam.Error{Kind: ipam.KindInvalid, Message: fmt.Sprintf("cannot release %s in NetBox: %s", g.Address, problem)}
	}
	keys := []string{g.Key}
	if !g.Address.IsValid() {
		keys = []string{ipam.KeyIn(g.Key, addr.V4), ipam.KeyIn(g.Key, addr.V6)}
	}
	for _, g.Key = range keys {
		held, err := p.find(ctx, g.Key)
		if err != nil {
			return err
		}
		if err := p.releaseAll(ctx, g, held); err != nil {
			return err
		}
	}
	return nil
}

// releaseAll releases each address that NetBox holds for g. There is one, unless the
// field is not unique.
func (p *Pool) releaseAll(ctx context.Context, g ipam.Grant, held []address) error {
	for _, a := range held {
		if g.Address.IsValid() && a.ip() != g.Address.Unmap() || p.another(a) != "" {
			continue
		}
		if err := p.releaseOne(ctx, g, a); err != nil {
			return err
		}
	}
	return nil
}

// releaseOne gives an address back in the way in which PureLB got it. An orphan may be an address
// that a reserved group took before it was deleted. The description of most such addresses
// shows this.
func (p *Pool) releaseOne(ctx context.Context, g ipam.Grant, a address) error {
	if p.group.Reserved || strings.HasPrefix(a.Description, ourDescription) {
		return p.restore(ctx, g, a)
	}
	return p.remove(ctx, a.ID, g.Key)
}

// remove deletes the address with this id. The caller has compared its key.
func (p *Pool) remove(ctx context.Context, id int64, key string) error {
	what := call{name: "release", method: http.MethodDelete, path: fmt.Sprintf("ipam/ip-addresses/%d/", id),
		what: fmt.Sprintf("release the address %s", p.object(id))}
	_, err := p.client.do(ctx, what, nil)
	if refused(err).status != http.StatusNotFound {
		return err
	}
	// The address is gone, or the token may not delete it.
	now, _, look := p.read(ctx, id)
	if refused(look).status == http.StatusNotFound {
		return nil
	}
	if look != nil {
		return asUnknown(look)
	}
	if still, _ := p.key.of(now); still != key {
		return nil
	}
	return p.client.report(misconfigured("%s", p.client.about(what, "HTTP 404, but the address is there: let the token's user delete it (permission ipam.delete_ipaddress, and its constraints)")))
}

// read returns the address with this id and its ETag.
func (p *Pool) read(ctx context.Context, id int64) (address, string, error) {
	what := call{name: "look", method: http.MethodGet, path: fmt.Sprintf("ipam/ip-addresses/%d/", id), what: fmt.Sprintf("look at the address %s", p.object(id))}
	var a address
	r, err := p.client.do(ctx, what, &a)
	if err != nil {
		return address{}, "", err
	}
	if a.ID != id {
		return address{}, "", p.client.strange(what, r, fmt.Sprintf("it has the id %d", a.ID))
	}
	return a, r.header.Get("ETag"), nil
}
