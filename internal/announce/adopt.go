package announce

import (
	"net/netip"
	"time"
)

// Adopt returns what tells our addresses from others in s on a kernel that keeps
// no marks; nil on one that does.
//
// On the dummy interface ours are those of a pool. No pool contains the addresses of a
// backend: of these, ours are those that a Service has, and those that this agent has
// had there until now. Elsewhere they are of the make
// that local addresses have. But NetworkManager makes those of DHCP alike, so that
// is not enough: a Service has it as well and it does not last longer than we let
// it, or this agent has had it until now. What is neither, and was ours, expires.
//
// While not all is known, nobody knows what Services have, and whatever may be ours
// is taken for it: all that is done to it is to refresh it.
func Adopt(s Situation) func(Address) bool {
	if s.Node.MarksSupported {
		return nil
	}
	services, backed := addressesOf(s.Services), backed(s)
	return func(a Address) bool {
		ip := a.Prefix.Addr()
		if onDummy(a, s.Agent) {
			_, _, pooled := s.Config.Groups.GroupOf(ip)
			return pooled || backed[ip] || s.HeldRemote[ip]
		}
		if !a.NoPrefixRoute || a.Valid == Forever {
			return false
		}
		return s.Held[ip] == a.Link || (services[ip] || !s.Complete) && a.Valid <= lasting(s)
	}
}

// backed returns the addresses of Services that a group with a backend gave addresses.
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

// lasting is for how long a local address lasts that is not refreshed; the kernel
// counts in seconds.
func lasting(s Situation) time.Duration {
	if s.Agent != nil && s.Agent.LocalAddress.Valid > 0 {
		return s.Agent.LocalAddress.Valid + time.Second
	}
	return keepFor + time.Second
}
