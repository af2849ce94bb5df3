package lease

import (
	"fmt"
	"log/slog"
	"time"

	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// Options configure the Leases of a node agent. All but Renewed and Random are required.
type Options struct {
	// Client accesses the Leases of the install namespace.
	Client coordination.LeaseInterface
	// Node is the name of this node. Instance is the UID of this agent's pod.
	Node, Instance string
	// Duration is how long a fast Lease counts after its last change was seen. The agent
	// renews it three times in that time.
	Duration time.Duration
	// RenewDeadline limits one attempt to renew. RetryPeriod is the pause after a failed
	// attempt.
	RenewDeadline, RetryPeriod time.Duration
	Log                        *slog.Logger
	// Renewed, if set, is called with the result of every attempt to renew.
	Renewed func(error)
	// Random returns numbers from 0 to 1, which spread the renewals of all agents. By default,
	// it is rand.Float64.
	Random func() float64
}

// Validate reports what is wrong with the durations.
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

// slowDuration is how long a slow Lease counts. The agent renews it three times in that
// time too.
const slowDuration = 3 * time.Minute

// silence is the longest time between two lists of an agent that polls in which it has missed
// nothing. A peer that renews its Lease in time always has six tenths of the duration left. So no
// living peer expires before this node knows that it is cut off.
func (o Options) silence() time.Duration { return o.Duration / 2 }
