package ipamserver

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/netbox"
)

// pool is a group of addresses in NetBox. It is safe for concurrent use.
type pool struct {
	group      netbox.Group
	connection *connection
	log        *slog.Logger

	mu sync.Mutex // guards what follows, also while the group is looked for
	// client is the client with which ready was prepared.
	client *netbox.Client
	ready  *netbox.Pool // nil until it was found
	// stale says that NetBox refused something, so the group must be looked up again.
	stale bool
}

// prepare finds the group in NetBox with the present token. If that fails, the group that was found
// earlier with the same token stays, so that requests which still succeed continue.
func (p *pool) prepare(ctx context.Context) (*netbox.Pool, error) {
	client, err := p.connection.current()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.ready != nil && p.client == client
	if known && !p.stale {
		return p.ready, nil
	}
	ready, err := client.Prepare(ctx, p.group)
	switch {
	case err != nil && known:
		return p.ready, nil // the next request of the pool reports the error
	case err != nil:
		return nil, err
	}
	facts := ready.Facts()
	if facts.Repeats {
		return nil, &ipam.Error{Kind: ipam.KindMisconfigured, Message: fmt.Sprintf(
			"NetBox %s at %s does not keep the values of the custom field for claims unique, so a claim whose answer was lost could get a second address: set unique for the field, in NetBox 4.1 or newer",
			facts.Version, p.connection.source.URL)}
	}
	p.client, p.ready, p.stale = client, ready, false
	p.log.InfoContext(ctx, "poolFound", "pool", p.group.Name, "netbox", facts.Version, "parents", facts.Parents)
	for _, warning := range facts.Warnings {
		p.log.WarnContext(ctx, "poolWarning", "pool", p.group.Name, "warning", warning)
	}
	return ready, nil
}

// note marks the group as stale after a refusal that means that NetBox has changed.
func (p *pool) note(err *ipam.Error) {
	if err == nil || err.Root().Kind != ipam.KindMisconfigured {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stale = true
}
