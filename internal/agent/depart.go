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

// leaveText is what the others are told while the agent leaves.
const leaveText = "the agent is leaving"

// partLimit is how long the agent waits at most for others to take what it has:
// longer than one of them may have it wait, 1.2 s as a rule.
func (a *Agent) partLimit() time.Duration { return a.Handover * 6 / 5 }

// leaveLimit is how long it may take to say goodbye afterwards, 0.5 s as a rule.
func (a *Agent) leaveLimit() time.Duration { return a.Handover / 2 }

// depart does what the end of the process asks for.
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
	// Handovers start with a fresh limit. Where the next pod is about to come, an address
	// that no node takes stays: the other agents may be ending too.
	a.handovers = announce.Handovers{Limit: a.Handover, OnlyTaken: addresses == ending.Offer}
	var gone []netip.Addr
	err := a.handOver(ctx, &gone)

	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), a.leaveLimit())
	defer end()
	// What nobody was asked to take goes last: until others hear the goodbye
	// they would not replace it.
	err = errors.Join(err, a.withdraw(ctx, addresses, &gone), a.Peers.Leave(ctx))
	if len(gone) > 0 {
		a.forgetFlows(gone)(ctx)
	}
	if err != nil {
		a.Log.WarnContext(ctx, "departed", "node", a.Node, "duration", time.Since(began), "error", err)
		return
	}
	a.Log.InfoContext(ctx, "departed", "node", a.Node, "duration", time.Since(began))
}

// handOver has others take what they can have and can be asked for, and adds what
// went to gone. One that fails does not keep the others from being taken.
func (a *Agent) handOver(ctx context.Context, gone *[]netip.Addr) error {
	tasks, stop := context.WithCancel(ctx)
	defer a.background.wait.Wait()
	defer stop()
	var err error
	for ctx.Err() == nil {
		now := time.Now()
		a.drain(tasks)
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

// partingPass is a pass that does nothing but to hand over. It returns what is to go and
// what went.
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

// withdraw takes off what is not to stay, and adds it to gone.
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
		// Without marks, an address that looks like ours may be the node's own.
		wanted = announce.Decide(seen.Situation).Wanted
	}
	_, went, err := a.remove(ctx, announce.Diff(wanted, seen.Node, seen.adopt).Remove, wanted)
	*gone = append(*gone, went...)
	return err
}
