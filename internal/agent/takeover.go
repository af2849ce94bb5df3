package agent

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
)

// probing says how to probe a segment for an address. A machine that has it answers within a
// millisecond or two. The second try is for a lost packet.
var probing = announce.Probing{Count: 2, Interval: 40 * time.Millisecond, Wait: 60 * time.Millisecond}

// asking returns how this node probes on link, by its own addresses.
func (o *observation) asking(link string) announce.Probing {
	p := probing
	p.Sources = announce.SourcesOn(link, o.Node, o.adopt)
	return p
}

// sendLimit is how long sending a message may take. After that time the handover is over
// anyway.
const sendLimit = time.Second

// tellOfArrivals returns the probes and messages that are due before addresses come here, and
// when they are here.
func (a *Agent) tellOfArrivals(seen *observation, coming announce.Arrivals) todo {
	all := todo{next: coming.Next}
	for link, ips := range byLink(coming.Probe) {
		all.tasks = append(all.tasks, a.probe(link, ips, seen))
	}
	for to, ips := range coming.Answer {
		all.tasks = append(all.tasks, a.write(to, announce.Taken, ips)...)
	}
	return all
}

// tellOfDepartures returns the requests to other nodes before addresses leave.
func (a *Agent) tellOfDepartures(going announce.Withdrawals) todo {
	all := todo{next: going.Next}
	for to, ips := range going.Ask {
		a.Metrics.handovers.Add(float64(len(ips)))
		a.Log.Info("handingOver", "node", a.Node, "to", to, "addresses", ips)
		all.tasks = append(all.tasks, a.write(to, announce.Take, ips)...)
	}
	return all
}

// probe returns the task that probes the segment of link for ips. The probe asks for the
// witnesses too: if none of them answers, the silence of the others proves nothing.
func (a *Agent) probe(link string, ips []netip.Addr, seen *observation) task {
	asking, witnesses := seen.asking(link), announce.WitnessesOn(link, seen.Situation, seen.adopt).Like(ips)
	asking.Everyone = true
	peers := seen.Peers
	return func(ctx context.Context) completion {
		answers, err := a.Kernel.Probe(ctx, link, slices.Concat(ips, witnesses.All()), asking)
		ended := time.Now() // the silence counts from now, even if the loop reads it later
		holders := a.holders(ctx, ips, answers, peers)
		return func() {
			for family, some := range byFamily(ips) {
				if err != nil {
					a.notProbed(ended, some)
				} else {
					a.probed(ctx, ended, side{link, family}, some, witnesses.Like(some), answers, holders)
				}
			}
			if err != nil {
				a.Log.WarnContext(ctx, "notProbed", "node", a.Node, "interface", link, "addresses", len(ips), "error", err)
			}
		}
	}
}

// probed records the machines that have ips, which are of one family, by all answers and by
// the holders that follow from them.
func (a *Agent) probed(
	ctx context.Context, now time.Time, where side, ips []netip.Addr, w announce.Witnesses,
	answers announce.Answers, holders map[netip.Addr][6]byte,
) {
	heard := announce.Answers{}
	for _, ip := range slices.Concat(ips, w.All()) {
		if macs, ok := answers[ip]; ok {
			heard[ip] = macs
		}
	}
	a.hearSegment(ctx, where, w, heard)
	if w.Missing(heard) {
		a.notProbed(now, ips)
		return
	}
	a.takeovers.Probed(now, ips, holders)
	silent := len(slices.DeleteFunc(slices.Clone(ips), func(ip netip.Addr) bool { _, ok := holders[ip]; return ok }))
	a.Metrics.probes.WithLabelValues("answered").Add(float64(len(ips) - silent))
	a.Metrics.probes.WithLabelValues("silent").Add(float64(silent))
}

// notProbed records that a probe of ips failed.
func (a *Agent) notProbed(now time.Time, ips []netip.Addr) {
	a.takeovers.Unprobed(now, ips)
	a.Metrics.probes.WithLabelValues("failed").Add(float64(len(ips)))
}

// write returns the tasks that send a message about addresses to the agent of another node.
// If the message does not arrive, that node cannot take them.
func (a *Agent) write(to string, kind announce.MessageKind, ips []netip.Addr) []task {
	var all []task
	for _, message := range announce.Encode(kind, ips) {
		all = append(all, func(ctx context.Context) completion {
			ctx, cancel := context.WithTimeout(ctx, sendLimit)
			defer cancel()
			err := a.Peers.Send(ctx, to, message)
			if err == nil {
				return nil
			}
			return func() {
				a.Log.WarnContext(ctx, "messageNotSent", "node", a.Node, "to", to, "addresses", len(ips), "error", err)
				if kind == announce.Take {
					a.handovers.Unasked(to, ips)
				}
			}
		})
	}
	return all
}

// readMail handles an offer of another agent, or its answer to an offer.
func (a *Agent) readMail(l mail) {
	if l.Kind == announce.Take {
		a.takeovers.Offered(l.received, l.from, l.Addresses)
		return
	}
	a.handovers.Taken(l.from, l.Addresses)
}

func byLink(addresses []announce.Address) map[string][]netip.Addr {
	links := map[string][]netip.Addr{}
	for _, a := range addresses {
		links[a.Link] = append(links[a.Link], a.Prefix.Addr())
	}
	return links
}

func byFamily(ips []netip.Addr) map[addr.Family][]netip.Addr {
	families := map[addr.Family][]netip.Addr{}
	for _, ip := range ips {
		families[addr.FamilyOf(ip)] = append(families[addr.FamilyOf(ip)], ip)
	}
	return families
}
