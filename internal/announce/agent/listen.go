package agent

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/announce/probe"
	"purelb.io/purelb/internal/backoff"
)

// The agent cannot know whether the network lets its answers through: a switch or a hypervisor may drop
// those for addresses that it did not assign itself. So after addresses have come, the agent asks one
// other node once whether that node hears the answers.
const (
	// listenAfter is the time from the arrival of an address to the question. By then duplicate address
	// detection has ended.
	listenAfter = 3 * time.Second
	// listenedTo limits the addresses of a question, because each costs packets. Such a filter drops the
	// answers for all of them.
	listenedTo = 8
)

// listening is what the agent knows of the other nodes that listen for it.
type listening struct {
	// asking says that a question is about to be sent. The addresses that come meanwhile are in none.
	asking atomic.Bool
	// notHeard are the addresses of which other nodes hear no answer, and these nodes, until they are
	// reported. Only the loop uses it.
	notHeard map[netip.Addr]string
}

// askListener returns the task that asks another node for some of the addresses that came here.
func (a *Agent) askListener(plan announce.Plan, done *announce.Outcome) todo {
	var fresh []netip.Addr
	for _, d := range plan.Decisions {
		if _, added := done.Added[d.IP]; added && d.Where == announce.Local && len(fresh) < listenedTo {
			fresh = append(fresh, d.IP)
		}
	}
	if len(fresh) == 0 || !a.listening.asking.CompareAndSwap(false, true) {
		return todo{}
	}
	return todo{tasks: []task{func(ctx context.Context) completion {
		defer a.listening.asking.Store(false)
		if backoff.Sleep(ctx, listenAfter) {
			a.sendListen(ctx, fresh)
		}
		return nil
	}}}
}

// sendListen asks about those of addresses that are still here.
func (a *Agent) sendListen(ctx context.Context, addresses []netip.Addr) {
	last, held := a.shown.Load(), a.held.read() // a pass has added the addresses
	asked := map[string][]netip.Addr{}
	for _, ip := range addresses {
		if node := last.seen.Listener(ip); node != "" && held[ip] != "" {
			asked[node] = append(asked[node], ip)
		}
	}
	for node, ips := range asked {
		a.tell(ctx, node, announce.Message{Kind: announce.Listen, Addresses: ips})
	}
}

// listenFor asks the segment about addresses that came to another node, and tells that node which of
// them no machine answers.
func (a *Agent) listenFor(ctx context.Context, node string, addresses []netip.Addr) {
	select {
	case a.prober.running <- struct{}{}:
		defer func() { <-a.prober.running }()
	default:
		return // many addresses move
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	notHeard := announce.Message{Kind: announce.NotHeard}
	for _, ip := range addresses[:min(len(addresses), listenedTo)] {
		if answer := a.prober.probeFor(ctx, ip); answer.Result == probe.Silent && !answer.Here {
			notHeard.Addresses = append(notHeard.Addresses, ip)
		}
	}
	if len(notHeard.Addresses) > 0 {
		a.tell(ctx, node, notHeard)
	}
}

// noteNotHeard records that another node hears no answer for addresses of this node.
func (a *Agent) noteNotHeard(node string, addresses []netip.Addr) {
	a.listening.notHeard = map[netip.Addr]string{}
	for _, ip := range addresses {
		a.listening.notHeard[ip] = node
	}
}

// reportNotHeard reports the addresses of this node that another node does not hear.
func (a *Agent) reportNotHeard(seen *observation) {
	if len(a.listening.notHeard) == 0 {
		return
	}
	held := a.held.read()
	for _, svc := range seen.Services {
		for _, ip := range svc.Addresses {
			if by := a.listening.notHeard[ip]; by != "" && held[ip] != "" {
				a.Log.Warn("addressNotHeard", "service", svc.Key, "address", ip, "node", a.Node, "interface", held[ip], "by", by)
				a.Events.Eventf(seen.services[svc.Key].ref(), corev1.EventTypeWarning, eventNotHeard,
					"%s is on node %s, but node %s in the same network cannot hear it: %s", ip, a.Node, by, probe.Dropped)
			}
		}
	}
	a.listening.notHeard = nil
}

// tell sends a message that is not important to the agent of another node.
func (a *Agent) tell(ctx context.Context, to string, m announce.Message) {
	ctx, cancel := context.WithTimeout(ctx, sendLimit)
	defer cancel()
	if err := a.Peers.Send(ctx, to, m.Encode()); err != nil {
		a.Log.DebugContext(ctx, "messageNotSent", "node", a.Node, "to", to, "error", err)
	}
}
