package lease

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"purelb.io/purelb/internal/nodes/election"
)

// samples records what each read shows of the Leases while they are not watched.
type samples struct {
	last map[string]sample
	// renewed holds, for each Lease that was seen to change, a time after which it was renewed.
	// silent are the nodes whose Leases are not renewed.
	renewed map[string]time.Time
	silent  map[string]bool
	// lost are the nodes that gossip lost, and when. stale are the versions of their Leases
	// that may be from before the loss. A watch first shows versions that were written
	// before it began. It shows each renewal a moment after the renewal was written.
	lost  map[string]time.Time
	stale map[string]string
	// left are the nodes whose agents left gossip in order. unnoticed, unproven and digests
	// are those of Mode.
	left      map[string]bool
	unnoticed bool
	unproven  map[string]bool
	digests   map[string]Digest
}

// sample is a version of a Lease, and when it was first and last seen.
type sample struct {
	version     string
	first, last time.Time
}

func newSamples() samples {
	return samples{
		last: map[string]sample{}, renewed: map[string]time.Time{}, silent: map[string]bool{}, stale: map[string]string{},
	}
}

// sample records that the Lease of node had this version at now.
func (g *samples) sample(node, version string, now time.Time, watched bool) {
	old, known := g.last[node]
	if known && old.version == version {
		old.last = now
		g.last[node] = old
		return
	}
	if known && !watched {
		g.renewed[node] = old.last
	}
	g.last[node] = sample{version, now, now}
	delete(g.silent, node)
}

func (g *samples) forget(node string) {
	delete(g.last, node)
	delete(g.renewed, node)
	delete(g.silent, node)
	delete(g.stale, node)
}

// list records all as the complete list of Leases. The request for it was sent at the time sent.
func (t *table) list(all []coordinationv1.Lease, sent time.Time) {
	there := map[string]bool{}
	for i := range all {
		if node, ok := nodeOf(&all[i]); ok {
			there[node] = true
			t.observe(&all[i], sent)
		}
	}
	for node := range t.contents {
		if !there[node] {
			t.drop(node)
		}
	}
	t.listed = sent
	t.prove(sent)
	if !t.accepted.IsZero() && sent.After(t.accepted) {
		t.settleFrom(sent)
	}
	for node := range t.lost {
		t.judge(node, sent)
	}
	for node := range t.unproven {
		t.judge(node, sent)
	}
}

// judge records that the Lease of node is silent if it was not renewed for its whole duration by
// the time read, when this node read it. The Lease of a lost node counts as long as a fast one.
func (t *table) judge(node string, read time.Time) {
	g, ok := t.last[node]
	from, counts := g.first, t.contents[node].duration
	if since, lost := t.lost[node]; lost {
		from, counts = later(from, since), t.duration
	} else if !t.unproven[node] {
		return
	}
	if ok && read.Sub(from) > counts {
		t.silent[node] = true
	}
}

// lose records which nodes are lost now. During a watch, a newly lost node with a slow
// Lease gets a shorter term to renew it.
func (t *table) lose(lost map[string]time.Time, now time.Time) {
	before := t.lost
	t.lost = lost
	for node := range lost {
		_, old := before[node]
		s, known := t.contents[node]
		if old || !known || !t.watching || t.silent[node] || s.duration <= t.duration {
			continue
		}
		version := t.last[node].version
		t.stale[node] = version
		t.live.Forget(node)
		t.live.Observe(node, version, t.term(node, version), now)
	}
}

// beginWatch records that a watch begins. Every node that is not known to be silent gets
// its full term to renew its Lease.
func (t *table) beginWatch() {
	t.watching, t.synced = true, false
	for node := range t.contents {
		if renewed := t.live.Renewed(node); renewed.After(t.renewed[node]) {
			t.renewed[node] = renewed
		}
	}
	t.live = election.NewLiveness(t.silence)
	clear(t.stale)
}

// endWatch records that the watch ended. The nodes that the watch found silent stay silent.
func (t *table) endWatch(now time.Time) {
	if nodes, trusted := t.live.Live(now); t.synced && trusted {
		live := map[string]bool{}
		for _, node := range nodes {
			live[node] = true
		}
		for node := range t.contents {
			t.silent[node] = !live[node]
		}
	}
	t.watching, t.synced = false, false
}
