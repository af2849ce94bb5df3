package agent

import (
	"context"

	"purelb.io/purelb/internal/election"
	"purelb.io/purelb/internal/lease"
	"purelb.io/purelb/internal/membership"
)

// Peers is what the agent needs to know of the other nodes, and what it tells
// them. Where the knowledge comes from (Leases, gossip) does not matter to it.
type Peers interface {
	// Publish says what the others may know of this node from now on.
	Publish(r lease.Record)
	// Peers returns what is known of all nodes.
	Peers() election.Peers
	// Changed signals that Peers returns something else.
	Changed() <-chan struct{}
	// Send delivers message to the agent of node. Only an answer tells that
	// it was read.
	Send(ctx context.Context, node string, message []byte) error
	// Received delivers what the agents of other nodes Send.
	Received() <-chan membership.Message
	// Leave says goodbye for good: the others need not wait until they miss
	// this node. Nothing that is published afterwards is told.
	Leave(ctx context.Context) error
}
