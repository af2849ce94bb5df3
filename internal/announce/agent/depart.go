package agent

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/ending"
)

// Departures tells why this process ends.
type Departures interface {
	Ending(ctx context.Context) ending.Ending
}

// leaveText is the reason that other nodes see while the agent leaves.
const leaveText = "the agent is leaving"

// partLimit is the longest that the agent waits for other nodes to take its addresses, 1.2 s
// as a rule. It is longer than the wait for one node.
func (a *Agent) partLimit() time.Duration { return a.Handover * 6 / 5 }

// leaveLimit is how long the agent may take to say goodbye afterwards, and then to delete the links
// that it created: 0.5 s each as a rule.
func (a *Agent) leaveLimit() time.Duration { return a.Handover / 2 }

// depart keeps the addresses, hands them over or withdraws them, as the cause of the end demands.
func (a *Agent) depart(ctx context.Context) {
	if a.Departures == nil {
		return
	}
	why := a.Departures.Ending(ctx)
	addresses := why.Cause.Addresses()
	a.Log.InfoContext(ctx, "departing", "node", a.Node, "cause", why.Cause.String(), "reason", why.Reason, "addressesStay", addresses == ending.Stay)
	if addresses == ending.Stay {
		a.completeHandovers(ctx)
		return
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, a.partLimit())
	defer cancel()
	a.leaving = leaveText
	// Handovers start with a fresh limit. If the next pod is about to come, an address that no
	// node takes stays: the other agents may be ending too.
	a.addresses.Depart(addresses == ending.Offer)
	err := a.handOver(ctx)

	// Each step has its own limit: if one takes too long, the next ones still succeed.
	ctx = context.WithoutCancel(ctx)
	// Withdraw the addresses that no node was asked to take last: the other nodes replace them
	// only after the goodbye. The goodbye does not wait for the deletion of the links.
	err = errors.Join(err, a.sayGoodbye(ctx, addresses))
	if addresses == ending.Withdraw {
		err = errors.Join(err, a.removeTraces(ctx))
	}
	a.logDeparted(ctx, began, err)
}

func (a *Agent) logDeparted(ctx context.Context, began time.Time, err error) {
	if err != nil {
		a.Log.WarnContext(ctx, "departed", "node", a.Node, "duration", time.Since(began), "error", err)
		return
	}
	a.Log.InfoContext(ctx, "departed", "node", a.Node, "duration", time.Since(began))
}

// completeHandovers waits for the nodes that were asked to take addresses, and removes what they have
// taken. Otherwise both nodes would have these addresses until the next agent starts here.
func (a *Agent) completeHandovers(ctx context.Context) {
	if !a.addresses.HandingOver() {
		return
	}
	began := time.Now()
	waiting, cancel := context.WithTimeout(ctx, a.partLimit())
	defer cancel()
	a.addresses.OnlyTaken = true
	a.logDeparted(ctx, began, a.handOver(waiting))
}

// sayGoodbye removes the addresses that must not stay, and leaves the other agents.
func (a *Agent) sayGoodbye(ctx context.Context, addresses ending.Addresses) error {
	ctx, end := context.WithTimeout(ctx, a.leaveLimit())
	defer end()
	return errors.Join(a.withdraw(ctx, addresses), a.Peers.Leave(ctx))
}

// removeTraces removes what is left after the last address.
func (a *Agent) removeTraces(ctx context.Context) error {
	ctx, end := context.WithTimeout(ctx, a.leaveLimit())
	defer end()
	return errors.Join(a.Kernel.Guard(ctx, nil), a.Kernel.RemoveDummies(ctx))
}

// handoverRetry is the pause after a handoverPass that failed, as an interrupted dump does.
const handoverRetry = 50 * time.Millisecond

// handOver asks other nodes to take the addresses that they can have, and removes what they have taken.
// An address whose handover fails does not delay the others.
func (a *Agent) handOver(ctx context.Context) error {
	tasks, stop := context.WithCancel(ctx)
	defer a.background.wait.Wait()
	defer stop()
	var err error
	for ctx.Err() == nil {
		now := time.Now()
		a.drain(ctx)
		var done *announce.Outcome
		done, err = a.handoverPass(ctx, now)
		a.background.start(tasks, a.offers(done))
		switch {
		case len(done.Parting) > 0:
		case err == nil:
			return nil
		default:
			done.Next = time.Now().Add(handoverRetry)
		}
		a.wait(tasks, nil, nil, time.Until(done.Next))
	}
	return errors.Join(err, ctx.Err())
}

// handoverPass is a pass that only hands over.
func (a *Agent) handoverPass(ctx context.Context, now time.Time) (*announce.Outcome, error) {
	done := announce.NewOutcome()
	seen, err := a.observe(ctx, now)
	if err != nil {
		return done, err
	}
	a.publish(seen)
	plan := announce.Decide(seen.Situation)
	successors := map[netip.Addr]bool{}
	for _, d := range plan.Decisions {
		successors[d.IP] = d.HandTo != ""
	}
	leaving := slices.DeleteFunc(announce.Diff(plan.Wanted, seen.Node).Remove, func(w announce.Address) bool {
		return !successors[w.Prefix.Addr()]
	})
	a.addresses.Leave(time.Now(), plan, leaving, done)
	return done, a.remove(ctx, done, nil)
}

// withdraw removes the addresses that must not stay.
func (a *Agent) withdraw(ctx context.Context, addresses ending.Addresses) error {
	if addresses == ending.Offer {
		return nil
	}
	seen, err := a.observe(ctx, time.Now())
	if err != nil {
		return err
	}
	a.publish(seen)
	var wanted []announce.Address
	if addresses != ending.Withdraw || !seen.Complete && !seen.Node.MarksSupported {
		// Without marks, an address that looks like ours may belong to the node.
		wanted = announce.Decide(seen.Situation).Wanted
	}
	return a.remove(ctx, &announce.Outcome{Remove: announce.Diff(wanted, seen.Node).Remove}, wanted)
}
