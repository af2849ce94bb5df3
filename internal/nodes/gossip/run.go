package gossip

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"purelb.io/purelb/internal/backoff"
)

// Run runs gossip until ctx is done. It may run once. It does not announce its end: Leave does.
func (g *Gossip) Run(ctx context.Context) error {
	network := g.open(ctx)
	if network == nil {
		return nil
	}
	transport := newSealed(network, g.keys, &g.counts, g.pending.look)
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
	g.live(ctx, list)
	return nil
}

// ports are the UDP port and the TCP port of this node.
type ports struct {
	*memberlist.NetTransport
	bind netip.AddrPort
}

func listen(bind netip.AddrPort, log *log.Logger) (ports, error) {
	t, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{
		BindAddrs: []string{bind.Addr().String()}, BindPort: int(bind.Port()), Logger: log,
	})
	return ports{t, bind}, err
}

// DialTimeout opens a stream from the address by which the other agents know this one.
func (p ports) DialTimeout(to string, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout, LocalAddr: &net.TCPAddr{IP: p.bind.Addr().AsSlice()}}
	return d.Dial("tcp", to)
}

// open opens the ports. It waits while the previous agent of this node still uses them, or while
// the node lacks the address. It returns nil if ctx ends meanwhile.
func (g *Gossip) open(ctx context.Context) memberlist.Transport {
	if g.opt.network != nil {
		return g.opt.network
	}
	for told := false; ; told = true {
		p, err := listen(g.opt.Bind, g.logger())
		if err == nil {
			return p
		}
		if !told {
			g.opt.Log.Warn("waiting for the gossip port", "address", g.opt.Bind, "error", err)
		}
		if !backoff.Sleep(ctx, g.opt.Timing.Rejoin/4) {
			return nil
		}
	}
}

// pulse is the longest pause between two rounds of live.
const pulse = stallMin / 2

// live spreads each published record, and declares dead the processes that the library lost and
// that have not refuted it in time. It runs until ctx is done.
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
		case <-g.lost:
		case <-timer.C:
		}
		now := time.Now()
		g.running(now)
		timer.Reset(min(pulse, time.Until(g.settle(now))))
	}
}

// spread sends the current result of NodeMeta to the other members, and waits for at most
// limit. A timeout is no failure.
func spread(list *memberlist.Memberlist, limit time.Duration) { _ = list.UpdateNode(limit) }

// settle declares dead the lost processes whose time is over, and returns when to call it again.
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
	return s.next
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
