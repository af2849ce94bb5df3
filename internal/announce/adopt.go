package announce

import (
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/service"
)

// Adopt marks the addresses of the node of s that are ours without a mark.
//
// A kernel that keeps marks has such addresses from PureLB 0.17, which set no marks. There an address is
// ours if a Service has it, and if it is on the dummy interface, or a slot names this node and its link and
// the address looks as PureLB 0.17 made it: see asEarlier. The agent then marks it.
//
// The rest is about kernels without marks.
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
func (s *Situation) Adopt() {
	guess := s.withoutMarks
	if s.Node.MarksSupported {
		guess = s.leftByAnEarlierGeneration
	}
	ours := guess()
	for i, a := range s.Node.Addresses {
		s.Node.Addresses[i].Adopted = a.Mark == 0 && ours(a)
	}
}

// withoutMarks returns which addresses are ours for a kernel without marks.
func (s Situation) withoutMarks() func(Address) bool {
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

// leftByAnEarlierGeneration returns which addresses without a mark are ours for a kernel that keeps marks.
func (s Situation) leftByAnEarlierGeneration() func(Address) bool {
	unmarked, ours := map[netip.Addr]Address{}, map[place]bool{}
	for _, a := range s.Node.Addresses {
		if a.Mark == 0 && (onDummy(a, s.Agent) || s.asEarlier(a)) {
			unmarked[a.Prefix.Addr()] = a
		}
	}
	if len(unmarked) == 0 { // the usual case
		return func(Address) bool { return false }
	}
	for _, svc := range s.Services {
		for _, ip := range svc.Addresses {
			a, found := unmarked[ip]
			slot, named := service.SlotOf(svc.Slots, ip)
			if found && (onDummy(a, s.Agent) || named && slot.Node == s.Self && slot.Interface == a.Link) {
				ours[placeOf(a)] = true
			}
		}
	}
	return func(a Address) bool { return ours[placeOf(a)] }
}

// earlierLasting is how long a local address of PureLB 0.17 lasts by default. The kernel counts in seconds.
const earlierLasting = 300*time.Second + time.Second

// asEarlier reports whether a looks like a local address of PureLB 0.17. It expires soon, has the flag that the
// configuration asks for, and the mask of an address of the node beside it. A node's own address is known
// to Kubernetes, or is the only one of its network. Beside an address with our mark, another program has it
// too: kube-vip, for example, has expiring addresses with a mask of their own.
func (s Situation) asEarlier(a Address) bool {
	if a.Valid > max(lasting(s), earlierLasting) || !a.NoPrefixRoute && !addsRoutes(s.Agent) || slices.Contains(s.NodeAddresses, a.Prefix.Addr()) {
		return false
	}
	beside := false
	for _, b := range s.Node.Addresses {
		if b.Prefix.Addr() == a.Prefix.Addr() && b.Mark == Mark {
			return false
		}
		beside = beside || networkOf(b) == networkOf(a) && b.Mark == 0 && b.Valid > a.Valid
	}
	return beside
}

// Share marks the addresses of the node of s that another load balancer put there, and that PureLB may have too:
// the user of their Service asks for adoption, or PureLB has them beside already, whatever became of the
// annotation. Programs such as kube-vip add an address without a network. Such
// a one may also be the node's only address, but then Kubernetes knows it.
//
// PureLB never removes an IPv4 address that it shares: it adds its own one with another mask. An IPv6 address
// exists only once on a link, so ours replaces it in place, with its mask.
func (s *Situation) Share() {
	asked := map[netip.Addr]bool{}
	for _, svc := range s.Services {
		for _, ip := range svc.Addresses {
			if svc.Adopt && !slices.Contains(s.NodeAddresses, ip) {
				asked[ip] = true
			}
		}
	}
	held := addressesOf(s.Services)
	for _, a := range s.Node.Addresses {
		if ip := a.Prefix.Addr(); a.marked() && held[ip] && !slices.Contains(s.NodeAddresses, ip) {
			asked[ip] = true
		}
	}
	for i, a := range s.Node.Addresses {
		s.Node.Addresses[i].Shared = asked[a.Prefix.Addr()] && a.Mark == 0 && a.Prefix.IsSingleIP() && a.Link != ipvsLink
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
