package peering

import (
	bgpv1 "purelb.io/purelb/api/bgp/v1"
)

// numbers reads the AS numbers of both ends. A group need not set the number of its
// neighbors, so the caller handles 0.
func (r *reader) numbers(ls layers, out *Options) bool {
	okLocal := r.localASN(ls, out)
	n, from := said(ls, func(l layer) bgpv1.PeerASN { return l.config.PeerASN })
	field := from.path + ".config.peerAsn"
	ok := true
	switch n {
	case 0:
	case bgpv1.Internal:
		out.ASN = out.LocalASN
	case bgpv1.AnyExternal:
		out.External = true
		if value(r.spec.Global.Confederation).Enabled {
			ok = r.refuse(field, ReasonNotSupported, "external does not say whether the neighbor is in the confederation: write the number of its autonomous system")
		}
	default:
		if out.ASN, ok = asn(int64(n)); !ok {
			r.refuse(field, ReasonParseError, badASN, n)
		}
	}
	return okLocal && ok
}

// localASN reads the number of the node's own AS in a session.
func (r *reader) localASN(ls layers, out *Options) bool {
	out.LocalASN = r.d.State.Global.ASN
	n, from := said(ls, func(l layer) int64 { return l.config.LocalASN })
	if n == 0 {
		return true
	}
	local, ok := asn(n)
	if !ok {
		return r.refuse(from.path+".config.localAsn", ReasonParseError, badASN, n)
	}
	out.LocalASN = local
	return true
}
