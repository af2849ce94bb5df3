package peering

import (
	"slices"
	"strconv"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
)

// numbers reads the AS numbers of both ends. A group need not set the number of its
// neighbors, so the caller handles 0. Neighbors outside of a confederation know its identifier
// only (RFC 5065).
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
	c := r.d.State.Global.Confederation
	if text, _ := said(ls, func(l layer) bgpv1.LocalASN { return l.config.LocalASN }); text == "" && c != nil && out.ASN != 0 && !out.interior() && !slices.Contains(c.Members, out.ASN) {
		out.LocalASN = c.Identifier
	}
	if !okLocal {
		out.ASN, out.External = 0, false // the kind of the session is not known
	}
	return okLocal && ok
}

// localASN reads the number of the node's own AS in a session.
func (r *reader) localASN(ls layers, out *Options) bool {
	out.LocalASN = r.d.State.Global.ASN
	text, from := said(ls, func(l layer) bgpv1.LocalASN { return l.config.LocalASN })
	if text == "" {
		return true
	}
	field, value := from.path+".config.localAsn", string(text)
	t, filled := templateOf(value)
	if filled {
		r.alone = true
		var there bool
		if value, there = t.value(r.node); !there {
			return r.lacking(field, t.missing(r.node, "64512"))
		}
	}
	n, err := strconv.ParseInt(value, 10, 64)
	local, ok := asn(n)
	switch {
	case (err != nil || !ok) && filled:
		return r.lacking(field, t.wrong(r.node, value, "the number of an autonomous system", "64512"))
	case err != nil:
		return r.refuse(field, ReasonParseError, "%s is neither the number of an autonomous system nor a template: write ${node.annotations['key']} or ${node.labels['key']}", quote(value))
	case !ok:
		return r.refuse(field, ReasonParseError, badASN, n)
	}
	out.LocalASN = local
	return true
}
