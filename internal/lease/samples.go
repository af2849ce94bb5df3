package lease

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"purelb.io/purelb/internal/election"
)

// samples records what each read shows of the Leases while they are not watched.
type samples struct {
	last map[string]sample
	// renewed is, for each Lease that was seen to change, a time after which it was renewed. silent
	// are the nodes whose Leases are not renewed.
	renewed map[string]time.Time
	silent  map[string]bool
	// lost are the nodes that gossip lost, and when. stale are the versions of their Leases
	// that may be from before the loss. A watch first shows versions that were written
	// before it began, and it shows each renewal a moment after it was written.
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

// sample records that the Lease of node had this version at at.
func (g *samples) sample(node, version string, at time.Time, watched bool) {
	old, known := g.last[node]
	if known && old.version == version {
		old.last = at
		g.last[node] = old
		return
	}
	if known && !watched {
		g.renewed[node] = old.last
	}
	g.last[node] = sample{version, at, at}
	delete(g.silent, node)
}

func (g *samples) forget(node string) {
	delete(g.last, node)
	delete(g.renewed, node)
	delete(g.silent, node)
	delete(g.stale, node)
}

// list records all as the complete list of Leases, which the API server returned to a
// request sent at at.
func (t *table) list(all []coordinationv1.Lease, at time.Time) {
	there := map[string]bool{}
	for i := range all {
		if node, ok := nodeOf(&all[i]); ok {
			there[node] = true
			t.observe(&all[i], at)
		}
	}
	for node := range t.said {
		if !there[node] {
			t.drop(node)
		}
	}
	t.listed = at
	t.prove(at)
	if !t.taken.IsZero() && at.After(t.taken) {
		t.settleFrom(at)
	}
	for node := range t.lost {
		t.judge(node, at)
	}
	for node := range t.unproven {
		t.judge(node, at)
	}
}

// judge records that the Lease of node is silent if a read at this time showed no renewal for its
// whole duration. The Lease of a lost node counts as long as a fast one.
func (t *table) judge(node string, at time.Time) {
	g, ok := t.last[node]
	from, counts := g.first, t.said[node].duration
	if since, lost := t.lost[node]; lost {
		from, counts = later(from, since), t.duration
	} else if !t.unproven[node] {
		return
	}
	if ok && at.Sub(from) > counts {
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
		s, known := t.said[node]
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
	for node := range t.said {
		if renewed := t.live.Renewed(node); renewed.After(t.renewed[node]) {
			t.renewed[node] = renewed
		}
	}
	t.live = election.NewLiveness(t.silence)
	clear(t.stale)
}

// endWatch records that the watch ended. It keeps which nodes the watch found silent.
func (t *table) endWatch(now time.Time) {
	if nodes, trusted := t.live.Live(now); t.synced && trusted {
		live := map[string]bool{}
		for _, node := range nodes {
			live[node] = true
		}
		for node := range t.said {
			t.silent[node] = !live[node]
		}
	}
	t.watching, t.synced = false, false
}
