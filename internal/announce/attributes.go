package announce

import (
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/config"
)

// kept returns the wanted address for the found address a, which stays. An address with a lifetime
// gets a full one, unless that is very long.
func (d *decider) kept(a Address) Address {
	k := Address{Prefix: a.Prefix, Link: a.Link, Valid: a.Valid, Preferred: a.Preferred, NoPrefixRoute: a.NoPrefixRoute, NoDAD: a.NoDAD, LinkScope: a.LinkScope}
	if a.Valid > ageless/2 {
		return k
	}
	k.Valid = keepFor
	if d.Agent != nil && d.Agent.LocalAddress.Valid > 0 {
		k.Valid = d.Agent.LocalAddress.Valid
	}
	if a.Preferred != 0 {
		k.Preferred = k.Valid
	}
	return k
}

// keepFor is the lifetime of an address while no LBNodeAgent sets one.
const keepFor = time.Minute

// localAddress returns prefix as a local address. An IPv6 address is deprecated, so that no program
// on the node uses it as its source. An IPv4 address that stands alone is only for its link, for the same
// reason: one with a mask is secondary to the node's own.
func (d *decider) localAddress(ip netip.Addr, link string, prefix netip.Prefix) Address {
	a := lifetimes(d.Agent.LocalAddress)
	a.Prefix, a.Link = prefix, link
	if !d.Node.MarksSupported && a.Valid == Forever {
		a.Valid, a.Preferred = ageless, min(a.Preferred, ageless)
	}
	a.LinkScope = ip.Is4() && prefix.IsSingleIP()
	if ip.Is6() {
		a.Preferred = 0
		// Another load balancer serves an address that its user asks to adopt. If that one is on this node, the
		// kernel would answer only after a second or two, and that one no longer.
		a.NoDAD = slices.ContainsFunc(d.holders[ip], func(s Service) bool { return s.SkipIPv6DAD || s.Adopt })
	}
	return a
}

// remoteAddress returns prefix as a remote address. An IPv6 address is always deprecated: a node whose
// uplinks have only link-local addresses, as with BGP unnumbered, chooses its source among the addresses
// of all links.
func (d *decider) remoteAddress(prefix netip.Prefix) Address {
	a := lifetimes(d.Agent.RemoteAddress)
	a.Prefix, a.Link = prefix, d.Agent.Dummy
	if prefix.Addr().Is6() {
		a.Preferred = 0
	}
	return a
}

// lifetimes returns an address with the attributes of o. A Valid of 0 means forever. A Preferred of
// 0 means forever only if Valid is 0 too. Otherwise it means deprecated.
func lifetimes(o config.AddressOptions) Address {
	a := Address{Valid: o.Valid, Preferred: o.Preferred, NoPrefixRoute: o.NoPrefixRoute}
	if a.Valid == 0 {
		a.Valid = Forever
		if a.Preferred == 0 {
			a.Preferred = Forever
		}
	}
	return a
}
