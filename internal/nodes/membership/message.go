package membership

import (
	"context"
	"errors"
	"time"

	"purelb.io/purelb/internal/nodes/gossip"
)

// Message is a message from the agent of another node.
type Message struct {
	From string
	Body []byte
	// Received is when the message arrived. Its content may not be true for long.
	Received time.Time
}

// inboxSize is how many messages wait for the reader. More messages are dropped.
const inboxSize = 256

// errNoGossip is the error of Send while gossip does not run.
var errNoGossip = errors.New("gossip does not run")

// Send delivers message to the agent of node.
func (m *Membership) Send(ctx context.Context, node string, message []byte) error {
	g := m.gossiping()
	if g == nil {
		return errNoGossip
	}
	return g.Send(ctx, node, message)
}

// gossiping returns the running gossip, or nil.
func (m *Membership) gossiping() *gossip.Gossip {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gossip
}

// Received delivers the messages that other agents sent with Send.
func (m *Membership) Received() <-chan Message { return m.inbox }

// receive puts a message into the inbox, unless it is full. Messages are requests: a sender
// without an answer asks again or goes on without one.
func (m *Membership) receive(from string, message []byte) {
	select {
	case m.inbox <- Message{From: from, Body: message, Received: time.Now()}:
	default:
	}
}

// Leave says goodbye for good, by gossip and by the Lease at the same time.
func (m *Membership) Leave(ctx context.Context) error {
	m.mu.Lock()
	m.left = true
	g := m.gossip
	m.mu.Unlock()
	said := make(chan error, 1)
	go func() {
		if g == nil {
			said <- nil
			return
		}
		said <- g.Leave(ctx)
	}()
	return errors.Join(m.leases.Delete(ctx), <-said)
}
