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
	// writtenAfter is how long after gossip told of it a node may need to write its Lease.
	writtenAfter = time.Second
	// fetchEach is for how long, for each node there is, the nodes spread their reads of
	// one Lease.
	fetchEach = time.Millisecond
)

// Digest is a number for the networks and addresses that r names: where one of them
// changes, it does too. It is never 0.
func (r Record) Digest() uint64 { return digest(join(r.Subnets), join(r.Addresses)) }

// digest is Record.Digest by the annotations of a Lease.
func digest(subnets, addresses string) uint64 {
	sum := sha256.Sum256([]byte(subnets + "\n" + addresses))
	return max(binary.BigEndian.Uint64(sum[:]), 1)
}

// fetch is what is to be done about a Lease that is known to say something else by now.
type fetch struct {
	told  uint64 // the digest of what it says
	at    time.Time
	pause time.Duration // to the time after at
}

// tell notes the digests that gossip tells of the Leases of nodes, and says whether
// there are new ones.
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

// outdated returns the node whose Lease is to be read first, and when; "" if there is none.
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

// fetched notes that the Lease of node was read at now. If it still says what it said, it
// is read again, ever more seldom.
func (t *table) fetched(node string, now time.Time) {
	f, ok := t.fetches[node]
	if !ok {
		return
	}
	f.pause = min(2*f.pause, round)
	f.at = now.Add(f.pause)
	t.fetches[node] = f
}

// untilOutdated returns the node whose Lease is to be read first, and how long that has to
// wait.
func (l *Leases) untilOutdated() (node string, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	node, at := l.table.outdated()
	return node, time.Until(at)
}

// fetch reads the Lease of node. All Leases are listed every few minutes: too late where a
// network of the node is gone, and others are to take the addresses there.
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
