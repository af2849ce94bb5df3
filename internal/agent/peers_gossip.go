package agent

import (
	"context"
	"sync"
	"time"

	"purelb.io/purelb/internal/gossip"
)

const (
	// again is the pause after gossip could not be started.
	again = 10 * time.Second
	// strangers is how often we look whether others use keys that we have not.
	strangers = time.Minute
)

// expect notes that gossip is expected to find the others from now on.
func (f *fellows) expect(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keeper.began = now
}

// manage notes that Leases must do, or that they need not any more.
func (f *fellows) manage(alone bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keeper.alone = alone
	signal(f.wake)
}

// talk gossips with the keys of the Secret until ctx is done.
func (f *fellows) talk(ctx context.Context) error {
	ring := newKeyring()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { f.gossipWith(ctx, ring) })
	return f.watchKeys(ctx, ring)
}

// gossipWith gossips from when there are keys until ctx is done. Before there is
// something to say nothing is said: the others would take it for all, and the
// node for one without subnets.
func (f *fellows) gossipWith(ctx context.Context, ring *keyring) {
	select {
	case <-ctx.Done():
		return
	case <-f.spoken:
	}
	var last string
	for {
		select {
		case <-ctx.Done():
			return
		case <-ring.filled:
		}
		err := f.gossipOnce(ctx, ring)
		if ctx.Err() != nil {
			return
		}
		f.manage(true)
		if text := errorText(err); text != last {
			f.log.WarnContext(ctx, "gossipEnded", "node", f.node, "error", text)
			last = text
		}
		pause(ctx, again)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// gossipOnce gossips until ctx is done or it fails.
func (f *fellows) gossipOnce(ctx context.Context, ring *keyring) error {
	g, err := gossip.New(gossip.Options{
		Node: f.node, Bind: f.bind, Keys: ring.keys(),
		Seeds: f.leases.Seeds, Timing: f.timing, Receive: f.receive, Log: f.log,
	})
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	wg.Go(func() { f.tend(ctx, g, ring) })
	f.begin(g)
	defer f.end()
	return g.Run(ctx)
}

// begin has g count, and end ends that.
func (f *fellows) begin(g *gossip.Gossip) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.record != nil {
		g.Publish(spoken(*f.record))
	}
	f.gossip, f.keeper.alone, f.keeper.began = g, false, time.Now()
	signal(f.wake)
}

func (f *fellows) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gossip = nil
	signal(f.wake)
}

// tend passes on what happens to g and its keys until ctx is done.
func (f *fellows) tend(ctx context.Context, g *gossip.Gossip, ring *keyring) {
	tick := time.NewTicker(strangers)
	defer tick.Stop()
	var foreign foreignKeys
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.Changed():
			signal(f.wake)
		case <-ring.changed:
			if err := g.SetKeys(ring.keys()); err != nil {
				f.log.WarnContext(ctx, "gossipKeysNotUsed", "error", err)
			}
		case <-tick.C:
			if bad := g.Health().BadKey; foreign.news(bad) {
				f.log.WarnContext(ctx, "gossipWithForeignKey", "node", f.node, "packets", bad)
			}
		}
	}
}

// foreignKeys judges how many packets came in that no key of ours opens. After a
// restart some do that are signed for the process before, for some seconds. With a
// foreign key they come all the time.
type foreignKeys struct {
	before           uint64
	growing, foreign bool
}

// news notes how many there have been until now, and says whether foreign keys are
// seen that were not seen the last time.
func (k *foreignKeys) news(packets uint64) bool {
	grows, was := packets > k.before, k.foreign
	k.foreign = grows && k.growing
	k.before, k.growing = packets, grows
	return k.foreign && !was
}
