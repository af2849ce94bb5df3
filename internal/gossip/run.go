package gossip

import (
	"context"
	"errors"
	"fmt"
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
	transport := newSealed(carrier, g.keys, &g.counts, g.pending.look)
	g.library = g.config(transport)
	list, err := memberlist.Create(g.library)
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
	wg.Go(func() { g.broadcast(ctx, list) })
	wg.Go(func() { g.detect(ctx, transport) })
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
// believes the suspicions that nothing refutes in time.
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
		case <-g.suspected:
		case <-timer.C:
		}
		timer.Reset(time.Until(g.settle(time.Now())))
	}
}

// spread tells the others what NodeMeta returns now, and waits at most for limit
// until that has been sent: that it could not be waited for is no failure.
func spread(list *memberlist.Memberlist, limit time.Duration) { _ = list.UpdateNode(limit) }

// settle believes the suspicions that are due, and returns when to do so again.
func (g *Gossip) settle(now time.Time) (next time.Time) {
	g.mu.Lock()
	s := g.table.settle(now)
	forgot := g.table.forget(now.Add(-g.opt.Timing.Memory))
	g.mu.Unlock()
	g.counts.stalls.Add(uint64(s.late))
	for _, m := range s.changed {
		g.tell(m)
	}
	if len(s.changed) > 0 || s.doubts || forgot {
		g.shift()
	}
	if limit := now.Add(g.opt.Timing.Memory / 60); s.next.IsZero() || s.next.After(limit) {
		return limit
	}
	return s.next
}

// stop ends the list, once it is not in use.
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
	goodbye := append([]byte(nil), g.meta...)
	goodbye[flagsAt] |= flagLeaving
	g.meta = goodbye
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
