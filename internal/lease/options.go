package lease

import (
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// Options are what the Leases of a node agent need. All but Gossip and Renewed
// are required.
type Options struct {
	// Client is for the Leases of the install namespace.
	Client coordination.LeaseInterface
	// Node is the name of this node, Instance the UID of this agent's pod.
	Node, Instance string
	// Gossip is where this node gossips; the zero value if it does not.
	Gossip netip.AddrPort
	// Duration is how long a Lease that is kept fast counts after it was last
	// seen to change. It is renewed three times as often.
	Duration time.Duration
	// RenewDeadline limits one attempt to renew, and RetryPeriod is the
	// pause after one that failed.
	RenewDeadline, RetryPeriod time.Duration
	Log                        *slog.Logger
	// Renewed, if set, is told the outcome of every attempt to renew.
	Renewed func(error)
}

// Validate tells what is wrong with the durations.
func (o Options) Validate() error {
	switch {
	case o.Duration < time.Second:
		return fmt.Errorf("lease duration %s is shorter than one second", o.Duration)
	case o.RenewDeadline >= o.Duration:
		return fmt.Errorf("renew deadline %s must be shorter than the lease duration %s", o.RenewDeadline, o.Duration)
	case o.RetryPeriod <= 0 || o.RetryPeriod >= o.RenewDeadline:
		return fmt.Errorf("retry period %s must be longer than 0 and shorter than the renew deadline %s", o.RetryPeriod, o.RenewDeadline)
	}
	return nil
}

// slowDuration is how long a Lease that is kept slowly counts. Like the others it
// is renewed three times as often.
const slowDuration = 3 * time.Minute

// silence is how long we believe to be in contact without proof of it. A peer's
// Lease that is renewed in time has two thirds of its duration left, so nobody
// alive runs out of it before we know that we are cut off.
func (o Options) silence() time.Duration { return o.Duration / 2 }
