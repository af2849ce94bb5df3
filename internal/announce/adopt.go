package announce

import (
	"net/netip"
	"time"

	"purelb.io/purelb/internal/config"
)

// Adopt returns a function that tells our addresses from others in s, on a kernel that keeps
// no marks. It returns nil on a kernel with marks.
//
// A remote address that this agent has had until now is ours, also if the dummy interface has another
// name now, or no known one.
//
// On the dummy interface, and on one that an agent made under another name, the addresses of a pool
// are ours. No pool contains the addresses of a backend. Such an address is ours if a Service has it.
//
// On other interfaces, our addresses have the attributes of local addresses. But NetworkManager
// gives addresses from DHCP the same attributes. So such an address is ours only in two cases: this
// agent has had it until now, or a Service has it and its lifetime is one of ours. An address of
// ours that meets neither condition expires. An address without an end of its lifetime is never ours.
//
// As long as the view is incomplete, it is unknown which addresses Services have. Then every
// address that may be ours counts as ours: the agent only refreshes it.
func Adopt(s Situation) func(Address) bool {
	if s.Node.MarksSupported {
		return nil
	}
	services, backed, links := addressesOf(s.Services), backed(s), s.Node.byName()
	return func(a Address) bool {
		ip := a.Prefix.Addr()
		if s.HeldRemote[ip] == a.Link {
			return true
		}
		if onDummy(a, s.Agent) || links[a.Link].Made {
			_, _, pooled := s.Config.Groups.GroupOf(ip)
			return pooled || backed[ip]
		}
		switch {
		case a.Valid == Forever:
			return false
		case s.Held[ip] == a.Link:
			return true
		case !a.NoPrefixRoute && !addsRoutes(s.Agent):
			return false
		}
		return services[ip] && a.Valid > ageless/2 || (services[ip] || !s.Complete) && a.Valid <= lasting(s)
	}
}

// Holds returns the addresses that are here after a pass and belong here, with their links: the local
// ones and, on a kernel without marks, the remote ones. The pass began with s and carried out p.
// added are the addresses that it added, and failed those that it could not add.
func Holds(s Situation, p Plan, added map[netip.Addr]Address, failed map[netip.Addr]error) (local map[netip.Addr]string, remote map[netip.Addr]string) {
	here, carried := IPs(s.Node.Addresses), Carried(s.Node)
	local, remote = map[netip.Addr]string{}, map[netip.Addr]string{}
	for _, d := range p.Decisions {
		_, just := added[d.IP]
		switch {
		case failed[d.IP] != nil:
		case d.Where == Local && (just || carried[d.IP]):
			local[d.IP] = d.Address.Link
		case d.Where == Remote && (just || here[d.IP]) && !s.Node.MarksSupported:
			remote[d.IP] = d.Address.Link
		}
	}
	for ip, link := range s.HeldRemote {
		if here[ip] && remote[ip] == "" { // also if it could not be removed
			remote[ip] = link
		}
	}
	return local, remote
}

// backed returns the addresses that Services have from a group with a backend.
func backed(s Situation) map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	for _, svc := range s.Services {
		for range svc.backendGroups(s.Config.Groups) {
			for _, ip := range svc.Addresses {
				all[ip] = true
			}
			break
		}
	}
	return all
}

// addsRoutes reports whether local addresses get the route to their network.
func addsRoutes(agent *config.Agent) bool { return agent != nil && !agent.LocalAddress.NoPrefixRoute }

// ageless is the lifetime of a local address that should not expire, on a kernel without marks. No
// address from DHCP has such a lifetime, and at least half of it is left while an agent refreshes it.
const ageless = 10 * 365 * 24 * time.Hour

// LongestLasting returns how long a local address of any node lasts without a refresh. ends is false if
// some node has addresses that do not expire.
func LongestLasting(s Situation) (longest time.Duration, ends bool) {
	longest = lasting(s)
	for _, agent := range s.Config.Agents {
		if agent.LocalAddress.Valid == 0 {
			return 0, false
		}
		longest = max(longest, agent.LocalAddress.Valid+time.Second)
	}
	return longest, true
}

// lasting returns how long a local address lasts without a refresh. The kernel counts in
// seconds.
func lasting(s Situation) time.Duration {
	if s.Agent != nil && s.Agent.LocalAddress.Valid > 0 {
		return s.Agent.LocalAddress.Valid + time.Second
	}
	return keepFor + time.Second
}
