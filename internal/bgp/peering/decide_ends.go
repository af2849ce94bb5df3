package peering

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
)

// numbers reads the AS numbers of both ends. The number of the neighbor is 0 if it is not set,
// which only a group allows.
func (r *reader) numbers(ls layers, out *Options) bool {
	okLocal := r.localASN(ls, out)
	n, from := firstSet(ls, func(l layer) bgpv1.PeerASN { return l.config.PeerASN })
	field := from.path + ".config.peerAsn"
	ok := true
	switch n {
	case 0:
	case bgpv1.Internal:
		out.ASN = out.LocalASN
	case bgpv1.AnyExternal:
		out.External = true
	default:
		if out.ASN, ok = asn(int64(n)); !ok {
			r.refuse(field, ReasonParseError, badASN, n)
		}
	}
	if !okLocal {
		out.ASN, out.External = 0, false // it is not known whether the session is internal
	}
	return okLocal && ok
}

// localASN reads the number of the node's own AS in a session.
func (r *reader) localASN(ls layers, out *Options) bool {
	out.LocalASN = r.d.State.Global.ASN
	text, from := firstSet(ls, func(l layer) bgpv1.LocalASN { return l.config.LocalASN })
	if text == "" {
		return true
	}
	const example = "64512"
	field := from.path + ".config.localAsn"
	value, t, ok := r.fill(field, string(text), example)
	if !ok {
		return false
	}
	n, _ := strconv.ParseInt(value, 10, 64)
	local, ok := asn(n)
	switch {
	case !ok && t != nil:
		return r.lacking(field, t.wrong(r.node, value, "the number of an autonomous system", example))
	case !ok:
		return r.refuse(field, ReasonParseError, badASN, value)
	}
	out.LocalASN = local
	return true
}

// templates matches the template for an annotation or a label of the node.
var templates = regexp.MustCompile(`^\$\{node\.(annotation|label)s\['([A-Za-z0-9._/-]{1,317})'\]\}$`)

// template stands for the value of an annotation or a label of the node.
type template struct{ kind, key string }

// templateOf reads a template.
func templateOf(text string) (template, bool) {
	match := templates.FindStringSubmatch(text)
	if match == nil {
		return template{}, false
	}
	return template{match[1], match[2]}, true
}

// value returns the value on a node.
func (t template) value(n Node) (string, bool) {
	all := n.Annotations
	if t.kind == "label" {
		all = n.Labels
	}
	value, there := all[t.key]
	return value, there
}

// missing says that the node lacks the annotation or label, and how to set it.
func (t template) missing(n Node, example string) string {
	return fmt.Sprintf("the node %s has no %s %s: set it, such as with kubectl %s node %s %s=%s", n.Name, t.kind, t.key, t.verb(), n.Name, t.key, example)
}

// wrong says what kind of value is expected, and how to correct the value.
func (t template) wrong(n Node, value, what, example string) string {
	return fmt.Sprintf("the %s %s of the node %s is %s, which is not %s: correct it, such as with kubectl %s --overwrite node %s %s=%s",
		t.kind, t.key, n.Name, quote(value), what, t.verb(), n.Name, t.key, example)
}

// verb is the command of kubectl that sets the annotation or label.
func (t template) verb() string {
	if t.kind == "label" {
		return "label"
	}
	return "annotate"
}

// lacking refuses an option whose value this node lacks. For a group, or for a neighbor of other
// nodes, that is no problem.
func (r *reader) lacking(field, message string) bool {
	if r.template || r.elsewhere {
		return false
	}
	return r.refuseBy(Problem{Field: field, Reason: ReasonNodeValue, Message: message, Here: true})
}

// fill returns the value of text on this node. If text is a template, fill also returns that
// template. If the node lacks the value, fill refuses the option and returns false.
func (r *reader) fill(field, text, example string) (value string, from *template, ok bool) {
	t, filled := templateOf(text)
	if !filled {
		return text, nil, true
	}
	r.alone = true
	value, ok = t.value(r.node)
	if !ok {
		r.lacking(field, t.missing(r.node, example))
	}
	return value, &t, ok
}

// localAddress reads the node's address for the session.
func (r *reader) localAddress(ls layers, out *Options) bool {
	text, from := firstSet(ls, func(l layer) string { return value(l.options.Transport).LocalAddress })
	if text == "" {
		return true
	}
	const example = "192.0.2.10"
	field := from.path + ".transport.localAddress"
	value, t, ok := r.fill(field, text, example)
	if !ok {
		return false
	}
	a, err := netip.ParseAddr(value)
	wrong := err != nil || a.Is4In6() || a.IsMulticast() || a.IsUnspecified()
	switch {
	case wrong && t != nil:
		return r.lacking(field, t.wrong(r.node, value, "an address that a session can be from", example))
	case wrong:
		return r.refuse(field, ReasonParseError, "%s is not an address that a session can be from", quote(text))
	}
	out.LocalAddress = a
	return true
}
