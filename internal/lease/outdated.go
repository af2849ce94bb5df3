package lease

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// writtenAfter is how long a node may need to write its Lease after gossip announced
	// the change.
	writtenAfter = time.Second
	// fetchEach, times the number of nodes, is the time over which the nodes spread their
	// reads of one changed Lease.
	fetchEach = time.Millisecond
)

// Digest returns a number that changes when the networks or addresses of r change. It is
// never 0.
func (r Record) Digest() uint64 { return digest(join(r.Subnets), join(r.Addresses)) }

// digest computes Record.Digest from the annotations of a Lease.
func digest(subnets, addresses string) uint64 {
	sum := sha256.Sum256([]byte(subnets + "\n" + addresses))
	return max(binary.BigEndian.Uint64(sum[:]), 1)
}

// fetch is the next read of a Lease that has changed according to gossip.
type fetch struct {
	told  uint64 // the digest that gossip announced
	at    time.Time
	pause time.Duration // from at to the read after it
}

// tell records the Lease digests from gossip, and reports whether one is new.
func (t *table) tell(told map[string]uint64, now time.Time) (news bool) {
	for node := range t.fetches {
		if told[node] != t.fetches[node].told {
			delete(t.fetches, node)
		}
	}
	for node, d := range told {
		if _, known := t.fetches[node]; known || node == t.self || t.said[node].digest == d {
			continue
		}
		spread := rand.N(fetchEach*time.Duration(len(t.said)) + 1)
		t.fetches[node] = fetch{told: d, at: now.Add(writtenAfter + spread), pause: writtenAfter}
		news = true
	}
	return news
}

// outdated returns the node whose Lease must be read next, and when. node is "" if there is
// none.
func (t *table) outdated() (node string, at time.Time) {
	for n, f := range t.fetches {
		if t.said[n].digest == f.told {
			delete(t.fetches, n)
			continue
		}
		if node == "" || f.at.Before(at) {
			node, at = n, f.at
		}
	}
	return node, at
}

// fetched records that the Lease of node was read at now. If the Lease has not changed, it
// is read again, at growing intervals.
func (t *table) fetched(node string, now time.Time) {
	f, ok := t.fetches[node]
	if !ok {
		return
	}
	f.pause = min(2*f.pause, round)
	f.at = now.Add(f.pause)
	t.fetches[node] = f
}

// untilOutdated returns the node whose Lease must be read next, and the time until then.
func (l *Leases) untilOutdated() (node string, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	node, at := l.table.outdated()
	return node, time.Until(at)
}

// fetch reads the Lease of node. The regular lists come every few minutes. That is too late
// if a network of the node is gone, and other nodes have to take over its addresses.
func (l *Leases) fetch(ctx context.Context, node string) {
	ctx, cancel := context.WithTimeout(ctx, l.opt.RenewDeadline)
	defer cancel()
	at := time.Now()
	o, err := l.opt.Client.Get(ctx, Prefix+node, metav1.GetOptions{})
	if err != nil {
		l.opt.Log.DebugContext(ctx, "lease not read", "node", node, "error", err)
	}
	l.update(func(t *table) bool {
		if err == nil {
			t.observe(o, at)
		}
		t.fetched(node, time.Now())
		return err == nil
	})
}
