package backends

import (
	"context"
	"time"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/allocate/netbox"
)

// pageSize is how many addresses one request lists.
const pageSize = 1000

// netBox is the backend of a group with NetBox.
type netBox struct {
	server *server
	group  netbox.Group
	state  *entry
	// confirmed is the digest of the orphans that a person lets PureLB release, or "".
	confirmed string

	// pool is nil until the group is found. stale says that it must be found again.
	pool   *netbox.Pool
	client *netbox.Client
	stale  bool
}

// ready finds the group in NetBox, with the present token of the Secret. If that fails, the
// previous pool stays, so that requests which still succeed with it continue.
func (n *netBox) ready(ctx context.Context) (driver, error) {
	if n.pool != nil && !n.stale && n.server.current(n.client) {
		return n.pool, nil
	}
	n.stale = false
	client, err := n.server.connect(ctx)
	if err == nil {
		var found *netbox.Pool
		if found, err = client.Prepare(ctx, n.group); err == nil {
			n.adopt(client, found)
		}
	}
	if n.pool == nil {
		return nil, err
	}
	return n.pool, nil
}

// adopt stores a pool that was just found.
func (n *netBox) adopt(client *netbox.Client, found *netbox.Pool) {
	n.client, n.pool = client, found
	facts := found.Facts()
	n.state.warn("prepare", facts.Warnings...)
	n.state.update(func(s *State) {
		s.Backend, s.Reached = "NetBox "+facts.Version, time.Now()
		if len(facts.Parents) > 0 {
			s.Ranges = facts.Parents
		}
	})
	n.server.enter(*n)
}

func (n *netBox) renew() { n.stale = true }

// parallel is 1 because the client sends one request at a time, and because a netBox has no lock.
func (n *netBox) parallel() int { return 1 }

func (n *netBox) longest() time.Duration { return time.Minute }
func (n *netBox) settle() time.Duration  { return 30 * time.Second }

// rest limits the groups of a server to about one counting request per minute.
func (n *netBox) rest() time.Duration {
	return max(rest, time.Duration(n.server.parents())*time.Minute)
}

func (n *netBox) uncounted(err error) *ipam.Error { return faultOf(err) }
func (n *netBox) close()                          { n.server.leave(n.group.Name) }
