package agent

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/lease"
)

// recheckAfter is how long after it was heard last the agent asks for a machine of
// whose address no Service makes it ask. So the agent asks three times before it
// forgets the machine.
const recheckAfter = 3 * time.Minute

// report returns which machine claims or answers for which address, as the Lease
// has it: of each address the first machine, in order. What was answered for and is
// held here by now belongs to no other machine any more.
//
// The allocator hands out none of these addresses. After a Service got another one
// nothing else would make the agent ask for the first, see recheck.
func (c conflicts) report(held map[netip.Addr]string) []lease.Claim {
	var claims []lease.Claim
	for _, who := range sortedRivals(slices.Collect(maps.Keys(c))) {
		n := len(claims)
		if (c[who].here || held[who.ip] == "") && (n == 0 || claims[n-1].Addr != who.ip) {
			claims = append(claims, lease.Claim{Addr: who.ip, MAC: who.mac})
		}
	}
	return claims[:min(len(claims), lease.MaxClaims)]
}

// recheck asks now and then for the machines that have addresses of no Service.
func (a *Agent) recheck(now time.Time, seen *observation) (next todo) {
	if len(a.conflicts) == 0 || !seen.sure() {
		return next
	}
	served := served(seen.Services)
	due := map[string][]netip.Addr{}
	for who, one := range a.conflicts {
		if served[who.ip] || now.Sub(one.heard) < recheckAfter || now.Sub(one.asked) < recheckAfter {
			continue
		}
		one.asked = now
		due[one.link] = append(due[one.link], who.ip)
	}
	for link, ips := range due {
		slices.SortFunc(ips, netip.Addr.Compare)
		next.errands = append(next.errands, a.askAgain(link, slices.Compact(ips), seen.asking(link)))
	}
	return next
}

// askAgain is the errand of asking whether the machines that had the addresses still
// have them. Another machine that answers is no news: the address may be a Service's
// of another node.
func (a *Agent) askAgain(link string, ips []netip.Addr, asking announce.Probing) errand {
	return func(ctx context.Context) note {
		answers, err := a.Kernel.Probe(ctx, link, ips, asking)
		if err != nil {
			a.Log.DebugContext(ctx, "notProbed", "node", a.Node, "interface", link, "addresses", len(ips), "error", err)
			return nil
		}
		ended := time.Now()
		return func() {
			for who, one := range a.conflicts {
				if mac, answered := answers[who.ip]; answered && mac == who.mac && one.link == link {
					one.heard = ended
				}
			}
		}
	}
}

// served are the addresses of services.
func served(services []announce.Service) map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	for _, svc := range services {
		for _, ip := range svc.Addresses {
			all[ip] = true
		}
	}
	return all
}
