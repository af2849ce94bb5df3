package agent

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/ending"
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

// leaveLimit is how long the agent may take to say goodbye afterwards, and then to delete the
// links that it created, 0.5 s each as a rule.
func (a *Agent) leaveLimit() time.Duration { return a.Handover / 2 }

// depart carries out what the cause of the end asks for.
func (a *Agent) depart(ctx context.Context) {
	if a.Departures == nil {
		return
	}
	why := a.Departures.Ending(ctx)
	addresses := why.Cause.Addresses()
	a.Log.InfoContext(ctx, "departing", "node", a.Node, "cause", why.Cause.String(), "reason", why.Reason, "addressesStay", addresses == ending.Stay)
	if addresses == ending.Stay {
		return
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, a.partLimit())
	defer cancel()
	a.leaving = leaveText
	// Handovers start with a fresh limit. If the next pod is about to come, an address that no
	// node takes stays: the other agents may be ending too.
	a.handovers = announce.Handovers{Limit: a.Handover, OnlyTaken: addresses == ending.Offer}
	var gone []netip.Addr
	err := a.handOver(ctx, &gone)

	// Each step has its own limit: if one takes too long, the next ones still succeed.
	ctx = context.WithoutCancel(ctx)
	// Withdraw the addresses that no node was asked to take last: the other nodes replace them
	// only after the goodbye. The goodbye does not wait for the deletion of the links.
	err = errors.Join(err, a.sayGoodbye(ctx, addresses, &gone))
	if addresses == ending.Withdraw {
		err = errors.Join(err, a.removeDummies(ctx))
	}
	if len(gone) > 0 {
		a.forgetFlows(gone)(ctx)
	}
	if err != nil {
		a.Log.WarnContext(ctx, "departed", "node", a.Node, "duration", time.Since(began), "error", err)
		return
	}
	a.Log.InfoContext(ctx, "departed", "node", a.Node, "duration", time.Since(began))
}

// sayGoodbye removes the addresses that must not stay, adds them to gone, and leaves the other
// agents.
func (a *Agent) sayGoodbye(ctx context.Context, addresses ending.Addresses, gone *[]netip.Addr) error {
	ctx, end := context.WithTimeout(ctx, a.leaveLimit())
	defer end()
	return errors.Join(a.withdraw(ctx, addresses, gone), a.Peers.Leave(ctx))
}

func (a *Agent) removeDummies(ctx context.Context) error {
	ctx, end := context.WithTimeout(ctx, a.leaveLimit())
	defer end()
	return a.Kernel.RemoveDummies(ctx)
}

// handOver asks other nodes to take the addresses that they can have, and adds the removed
// addresses to gone. A failed address does not delay the others.
func (a *Agent) handOver(ctx context.Context, gone *[]netip.Addr) error {
	tasks, stop := context.WithCancel(ctx)
	defer a.background.wait.Wait()
	defer stop()
	var err error
	for ctx.Err() == nil {
		now := time.Now()
		a.drain()
		var going announce.Withdrawals
		var went []netip.Addr
		going, went, err = a.partingPass(ctx, now)
		a.background.start(tasks, a.tellOfDepartures(going).tasks)
		*gone = append(*gone, went...)
		if len(going.Waiting) == 0 {
			return err
		}
		a.wait(tasks, nil, nil, time.Until(going.Next))
	}
	return errors.Join(err, ctx.Err())
}

// partingPass is a pass that only hands over. It returns the withdrawals and the removed
// addresses.
func (a *Agent) partingPass(ctx context.Context, now time.Time) (announce.Withdrawals, []netip.Addr, error) {
	seen, err := a.observe(ctx, now)
	if err != nil {
		return announce.Withdrawals{}, nil, err
	}
	a.publish(seen)
	plan := announce.Decide(seen.Situation)
	heirs := map[netip.Addr]bool{}
	for _, d := range plan.Decisions {
		heirs[d.IP] = d.HandTo != ""
	}
	leaving := slices.DeleteFunc(announce.Diff(plan.Wanted, seen.Node, seen.adopt).Remove, func(w announce.Address) bool {
		return !heirs[w.Prefix.Addr()]
	})
	going := a.handovers.Sift(now, plan, leaving)
	_, went, err := a.remove(ctx, going.Remove, nil)
	return going, went, err
}

// withdraw removes the addresses that must not stay, and adds them to gone.
func (a *Agent) withdraw(ctx context.Context, addresses ending.Addresses, gone *[]netip.Addr) error {
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
	_, went, err := a.remove(ctx, announce.Diff(wanted, seen.Node, seen.adopt).Remove, wanted)
	*gone = append(*gone, went...)
	return err
}
