package gossip

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
)

// Run gossips until ctx is done, and says no goodbye: see Leave. It may run once.
func (g *Gossip) Run(ctx context.Context) error {
	carrier, err := g.carrier(ctx)
	if carrier == nil {
		return err
	}
	transport := newSealed(carrier, g.ring, &g.counts, g.news.look)
	list, err := memberlist.Create(g.config(transport))
	if err != nil {
		return errors.Join(fmt.Errorf("start gossip: %w", err), transport.Shutdown())
	}
	g.talk.Lock()
	g.list = list
	g.talk.Unlock()

	var wg sync.WaitGroup
	defer wg.Wait()
	defer g.stop(list)
	wg.Go(func() { g.join(ctx, list) })
	wg.Go(func() { g.passOn(ctx, list) })
	wg.Go(func() { g.beat(ctx, transport) })
	g.live(ctx, list)
	return nil
}

// carrier opens the network. The agent before us on this node may not have left
// the port yet, so it waits for that; ending meanwhile is no error.
func (g *Gossip) carrier(ctx context.Context) (carrier, error) {
	if g.opt.carrier != nil {
		return g.opt.carrier, nil
	}
	for told := false; ; told = true {
		n, err := listen(g.opt.Bind, &g.counts)
		if err == nil {
			return n, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EADDRNOTAVAIL) {
			return nil, fmt.Errorf("start gossip: %w", err)
		}
		if !told {
			g.opt.Log.Warn("waiting for the gossip port", "address", g.opt.Bind, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(g.opt.Timing.Rejoin / 4):
		}
	}
}

// live looks after the list until ctx is done: it spreads what is published, and
// believes what time alone proves.
func (g *Gossip) live(ctx context.Context, list *memberlist.Memberlist) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.published:
			spread(list, time.Nanosecond)
			continue
		case <-g.doubted:
		case <-timer.C:
		}
		timer.Reset(time.Until(g.settle(time.Now())))
	}
}

// spread tells the others what NodeMeta returns now, and waits at most for limit
// until that has been sent: that it could not be waited for is no failure.
func spread(list *memberlist.Memberlist, limit time.Duration) { _ = list.UpdateNode(limit) }

// settle believes what time has proved, and returns when to do so again.
func (g *Gossip) settle(now time.Time) (next time.Time) {
	g.mu.Lock()
	s := g.table.settle(now)
	forgot := g.table.forget(now.Add(-g.opt.Timing.Memory))
	g.mu.Unlock()
	g.counts.stalls.Add(uint64(s.late))
	for _, m := range s.changed {
		g.tell(m)
	}
	if len(s.changed) > 0 || forgot {
		g.shift()
	}
	if limit := now.Add(g.opt.Timing.Memory / 60); s.next.IsZero() || s.next.After(limit) {
		return limit
	}
	return s.next
}

// stop ends the list, when nobody uses it.
func (g *Gossip) stop(list *memberlist.Memberlist) {
	g.talk.Lock()
	g.list = nil
	g.talk.Unlock()
	// It only says that it could not close what it has closed before.
	_ = list.Shutdown()
}

// Leave says goodbye: the others see this node's agent as Left, at once. Nothing
// that is published afterwards is told. It returns when enough of the others
// have been told to tell the rest, or when ctx is done.
func (g *Gossip) Leave(ctx context.Context) error {
	g.talk.RLock()
	list := g.list
	g.talk.RUnlock()
	if list == nil {
		return fmt.Errorf("say goodbye: %w", errAway)
	}
	g.mu.Lock()
	farewell := append([]byte(nil), g.meta...)
	farewell[flagsAt] |= flagLeaving
	g.meta = farewell
	g.mu.Unlock()
	done := make(chan error, 1)
	go func() { done <- list.UpdateNode(g.opt.Timing.Stream) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("say goodbye: %w", ctx.Err())
	}
}

// beat says that this process lives, hears who else does, and hands the library
// what is for it, until ctx is done.
func (g *Gossip) beat(ctx context.Context, transport *sealed) {
	h := newHeart(g.self, g.opt.Timing, &g.counts)
	// Agents that start together should not beat together.
	pause := rand.N(g.opt.Timing.Beat)
	for {
		transport.carrier.rest(pause)
		if ctx.Err() != nil {
			return
		}
		now := time.Now()
		g.vigil.sign(now)
		if c, moved := g.circle(); moved {
			h.sit(c, now)
		}
		var p pulse
		transport.poll(h.self, func(w word) { h.hear(w, &p) })
		h.look(now, &p)
		g.take(p, now)
		for _, post := range p.posts {
			if ctx.Err() != nil {
				return
			}
			transport.say(post)
		}
		pause = max(g.opt.Timing.Beat/2, g.opt.Timing.Beat-time.Since(now))
	}
}

// circle returns who beats, if that has changed.
func (g *Gossip) circle() (c circle, moved bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.table.moved {
		return nil, false
	}
	g.table.moved = false
	return g.table.circle(), true
}

// take notes who was heard and who was missed.
func (g *Gossip) take(p pulse, now time.Time) {
	var changed []Member
	g.mu.Lock()
	for _, id := range p.silent {
		g.table.miss(id, now.Add(g.opt.Timing.Silence), now)
	}
	for _, id := range p.alive {
		if g.table.beat(id, now) {
			changed = append(changed, g.table.nodes[id.node])
		}
	}
	g.mu.Unlock()
	for _, m := range changed {
		g.tell(m)
	}
	if len(changed) > 0 {
		g.shift()
	}
	if len(p.silent) > 0 {
		poke(g.doubted)
	}
}
