package gossip

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/hashicorp/memberlist"

	"purelb.io/purelb/internal/backoff"
)

// Run runs gossip until ctx is done. It may run once. It does not announce its end: Leave does.
func (g *Gossip) Run(ctx context.Context) error {
	carrier, err := g.carrier(ctx)
	if carrier == nil {
		return err
	}
	transport := newSealed(carrier, g.opt.Bind, g.keys, &g.counts, g.pending.look)
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
	wg.Go(func() { g.broadcast(ctx, list) })
	g.detect(ctx, transport)
	return nil
}

// carrier opens the network. It waits while the previous agent of this node still uses the
// port, or while the node lacks the address. If ctx ends meanwhile, that is no error.
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
		if !backoff.Sleep(ctx, g.opt.Timing.Rejoin/4) {
			return nil, nil
		}
	}
}

// stop shuts the library down when no caller uses list any more.
func (g *Gossip) stop(list *memberlist.Memberlist) {
	g.talk.Lock()
	g.list = nil
	g.talk.Unlock()
	// Shutdown only returns the error of closing a port twice.
	_ = list.Shutdown()
}

// Leave announces that this process leaves. The other agents see this node as Left at once.
// A record that is published later has no effect. Leave returns when enough members know of
// it to inform the rest, or when ctx is done.
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
