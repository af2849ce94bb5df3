package peering

import (
	"net/netip"
	"slices"
)

// shutOut reports neighbors without a password that lie in a network of dynamic neighbors with one,
// and therefore cannot connect. The kernel keeps the password for the whole network
// (TCP_MD5SIG_EXT), and drops packets from it that are not signed. Only a neighbor that is not
// passive gets a session, because this node connects to it.
func (r *reader) shutOut() {
	for _, m := range r.members {
		from, field, remedy := m.from, m.Path, "write one in its peer group too"
		if m.Address.IsValid() {
			from = netip.PrefixFrom(m.Address.WithZone(""), m.Address.BitLen())
			field, remedy = m.Path+".config", "write one here too, set transport.passiveMode to false"
		}
		waits := m.Passive || m.from.IsValid()
		if !from.IsValid() || !waits || m.AdminDown || m.Password != "" {
			continue
		}
		i := slices.IndexFunc(r.d.State.Dynamic, func(d Dynamic) bool {
			return d.Prefix.Bits() <= from.Bits() && d.Prefix.Contains(from.Addr()) && r.signed(d)
		})
		if i < 0 {
			continue
		}
		d := r.d.State.Dynamic[i]
		r.here(field, ReasonConflict, "%s cannot connect without a password, because %s of %s includes it and has a password: %s, or choose networks that do not include it",
			m.title(), d.Prefix, r.merged.origin(d.Path), remedy)
	}
}

// signed reports whether the neighbors of d have a password.
func (r *reader) signed(d Dynamic) bool {
	return slices.ContainsFunc(r.d.State.Groups, func(g Group) bool { return g.Name == d.Group && g.Password != "" })
}
