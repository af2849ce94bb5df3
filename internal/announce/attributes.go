package announce

import (
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/config"
)

// kept returns the wanted address for the found address a, which stays. Its lifetime goes on.
func (d *decider) kept(a Address) Address {
	k := Address{Prefix: a.Prefix, Link: a.Link, Valid: a.Valid, Preferred: a.Preferred, NoPrefixRoute: a.NoPrefixRoute, NoDAD: a.NoDAD}
	if a.Valid == Forever {
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

// keepFor is the lifetime of an address of which only is known that it is ours.
const keepFor = time.Minute

// localAddress returns prefix as a local address: an IPv6 one deprecated, so that
// nothing chooses it as its source.
func (d *decider) localAddress(ip netip.Addr, link string, prefix netip.Prefix) Address {
	a := lifetimes(d.Agent.LocalAddress)
	a.Prefix, a.Link = prefix, link
	if ip.Is6() {
		a.Preferred = 0
		a.NoDAD = slices.ContainsFunc(d.holders[ip], func(s Service) bool { return s.SkipIPv6DAD })
	}
	return a
}

func (d *decider) remoteAddress(prefix netip.Prefix) Address {
	a := lifetimes(d.Agent.RemoteAddress)
	a.Prefix, a.Link = prefix, d.Agent.Dummy
	return a
}

// lifetimes returns an address with the attributes of o. A Valid of 0 means for ever. A
// Preferred of 0 means for ever only together with a Valid of 0.
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
