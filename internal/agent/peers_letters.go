package agent

import (
	"context"
	"errors"
	"time"

	"purelb.io/purelb/internal/gossip"
)

// letterBox is how many letters wait to be read until more are dropped.
const letterBox = 256

// errNoGossip is why nothing can be sent.
var errNoGossip = errors.New("gossip does not run")

// Send delivers message to the agent of node.
func (f *fellows) Send(ctx context.Context, node string, message []byte) error {
	g := f.gossiping()
	if g == nil {
		return errNoGossip
	}
	if err := g.Send(ctx, node, message); err != nil {
		return err
	}
	f.sent.Add(1)
	return nil
}

// gossiping is the gossip that runs, or nil.
func (f *fellows) gossiping() *gossip.Gossip {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gossip
}

// Received delivers what the agents of other nodes Send.
func (f *fellows) Received() <-chan Letter { return f.letters }

// receive takes a letter, unless too many wait: they are requests, and who has no
// answer asks again or goes on without one.
func (f *fellows) receive(from string, message []byte) {
	select {
	case f.letters <- Letter{From: from, Message: message, At: time.Now()}:
		f.received.Add(1)
	default:
		f.dropped.Add(1)
	}
}

// Leave says goodbye for good, by gossip and by Lease at the same time.
func (f *fellows) Leave(ctx context.Context) error {
	f.mu.Lock()
	f.left = true
	g := f.gossip
	f.mu.Unlock()
	said := make(chan error, 1)
	go func() {
		if g == nil {
			said <- nil
			return
		}
		said <- g.Leave(ctx)
	}()
	return errors.Join(f.leases.Delete(ctx), <-said)
}
