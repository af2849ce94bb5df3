package backends

import (
	"context"
	"errors"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/netbox"
)

// netBoxBatch is the size of a batch of claims. NetBox processes a batch in one request, and other
// requests wait for the end of that request.
const netBoxBatch = 40

// pageSize is how many addresses one request lists.
const pageSize = 1000

// netBox is the backend of a group with NetBox.
type netBox struct {
	server *server
	group  netbox.Group
	state  *entry
	// confirmed is the digest of the orphans that a person lets PureLB release, or "".
	confirmed string

	*netbox.Pool // nil until it is prepared
	client       *netbox.Client
	stale        bool
}

// prepare finds the group in NetBox, with the present token of the Secret. If that fails, the
// previous pool stays, so that requests which still succeed with it continue.
func (n *netBox) prepare(ctx context.Context) error {
	if n.Pool != nil && !n.stale && n.server.current(n.client) {
		return nil
	}
	n.stale = false
	client, err := n.server.connect(ctx)
	if err == nil {
		var pool *netbox.Pool
		if pool, err = client.Prepare(ctx, n.group); err == nil {
			n.adopt(client, pool)
			return nil
		}
	}
	if n.Pool != nil {
		return nil
	}
	return err
}

// adopt stores a pool that was just prepared.
func (n *netBox) adopt(client *netbox.Client, pool *netbox.Pool) {
	n.client, n.Pool = client, pool
	facts := pool.Facts()
	n.state.warn("prepare", facts.Warnings...)
	n.state.update(func(s *State) {
		s.Backend, s.Reached = "NetBox "+facts.Version, time.Now()
		if len(facts.Parents) > 0 {
			s.Ranges = facts.Parents
		}
	})
	n.server.enter(member{group: n.group, pool: pool, state: n.state, confirmed: n.confirmed})
}

func (n *netBox) renew()       { n.stale = true }
func (n *netBox) batch() int   { return netBoxBatch }
func (n *netBox) nearby() bool { return false }
func (n *netBox) close()       { n.server.leave(n.group.Name) }

// ReleaseAll releases both families. A former allocator may have sent a claim that this one does not
// know.
func (n *netBox) ReleaseAll(ctx context.Context, key string) error {
	return errors.Join(n.Release(ctx, []ipam.Grant{{Key: ipam.KeyIn(key, addr.V4)}, {Key: ipam.KeyIn(key, addr.V6)}})...)
}

func (n *netBox) measuring(err error) *ipam.Error { return faultOf(err) }

// Capacity counts the addresses, and notes how many requests that takes.
func (n *netBox) Capacity(ctx context.Context) (ipam.Capacity, error) {
	c, err := n.Pool.Capacity(ctx)
	if err == nil {
		listed := min(c.InUse[addr.V4], 1e6) + min(c.InUse[addr.V6], 1e6)
		n.server.note(n.group.Name, len(c.Ranges)+int(listed/pageSize))
	}
	return c, err
}

// rest limits the groups of a server to one counting request per minute.
func (n *netBox) rest() time.Duration {
	return max(rest, time.Duration(n.server.cost())*time.Minute)
}
