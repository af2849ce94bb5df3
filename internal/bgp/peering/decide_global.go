package peering

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"purelb.io/purelb/internal/addr"
)

const (
	asTrans          = 23456 // RFC 6793
	bgpPort          = 179
	defaultHeartbeat = 60 * time.Second
)

// asn reads an AS number.
func asn(n int64) (uint32, bool) {
	if n < 1 || n > math.MaxUint32 || n == asTrans {
		return 0, false
	}
	return uint32(n), true
}

const badASN = "%v is not the number of an autonomous system: write one from 1 to 4294967295, but not 23456"

// global reads the options of the node as a whole.
func (r *reader) global() {
	const field = "spec.global"
	in, out := r.spec.Global, &r.d.State.Global
	var ok bool
	if out.ASN, ok = asn(in.ASN); !ok {
		r.fatal(field+".asn", ReasonParseError, badASN, in.ASN)
	}
	r.routerID(field)
	r.listening(field)
	r.globalFamilies(field)
	r.device(field)
}

// nodeIP stands for the internal addresses of the Node.
const nodeIP = "${NODE_IP}"

// listening reads the addresses to listen at. A mistake never makes the node listen at more
// addresses than the configuration lists.
func (r *reader) listening(field string) {
	in, out := r.spec.Global, &r.d.State.Global
	switch {
	case in.ListenPort == 0:
		out.Port = bgpPort
	case in.ListenPort >= -1 && in.ListenPort <= math.MaxUint16:
		out.Port = int(in.ListenPort)
	default:
		out.Port = bgpPort
		r.note(field+".listenPort", ReasonParseError,
			"%d is not a TCP port, so 179 is used: write one from 1 to 65535, or -1 to listen nowhere", in.ListenPort)
	}
	for i, text := range in.ListenAddresses {
		if text == nodeIP {
			r.internalListeners(at(field+".listenAddresses", i))
			continue
		}
		a, err := netip.ParseAddr(text)
		switch {
		case err != nil || a.Is4In6() || a.IsMulticast():
			r.note(at(field+".listenAddresses", i), ReasonParseError,
				"%s is not an address to listen at, and left out: write one of the node's IP addresses, or "+nodeIP, quote(text))
		case slices.Contains(out.Listen, a):
			r.note(at(field+".listenAddresses", i), ReasonDuplicate, "%s is there twice: remove one", a)
		default:
			out.Listen = append(out.Listen, a)
		}
	}
	r.coveredListeners(field + ".listenAddresses")
	if len(in.ListenAddresses) > 0 && len(out.Listen) == 0 {
		out.Port = -1
	}
}

// listensIfNeeded lets the node listen only if the configuration says where, or if a neighbor must
// connect to the node. Otherwise the node opens all sessions itself, so that port 179 is closed on the
// addresses of Services and is left to other programs.
func (r *reader) listensIfNeeded() {
	in := r.spec.Global
	if in.ListenPort != 0 || len(in.ListenAddresses) > 0 {
		return
	}
	if !slices.ContainsFunc(r.members, func(m member) bool { return m.Passive }) {
		r.d.State.Global.Port = -1
	}
}

// coveredListeners leaves out the addresses that 0.0.0.0 or :: stands for: the kernel refuses a second
// socket for them, and the server would not start.
func (r *reader) coveredListeners(field string) {
	out := &r.d.State.Global
	for _, every := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		if !slices.Contains(out.Listen, every) {
			continue
		}
		before := len(out.Listen)
		out.Listen = slices.DeleteFunc(out.Listen, func(a netip.Addr) bool { return a != every && a.Is4() == every.Is4() })
		if len(out.Listen) == before {
			continue
		}
		const covered = "%s stands for all addresses of its family, so the other ones of that family are left out: remove it, or them"
		if slices.Contains(r.spec.Global.ListenAddresses, nodeIP) {
			r.here(field, ReasonDuplicate, covered, every) // nodes differ in their families
		} else {
			r.note(field, ReasonDuplicate, covered, every)
		}
	}
}

// internalListeners adds the internal addresses of the Node. It sorts them, because another order
// of the same addresses in the status must not restart the server.
func (r *reader) internalListeners(field string) {
	listen := &r.d.State.Global.Listen
	internal := slices.SortedFunc(slices.Values(r.node.InternalIPs), netip.Addr.Compare)
	if len(internal) == 0 {
		r.here(field, ReasonParseError, nodeIP+" stands for the internal addresses of the Node, which has none: write addresses")
	}
	for _, a := range internal {
		if !slices.Contains(*listen, a) {
			*listen = append(*listen, a)
		}
	}
}

// families maps the names of supported address families to the families.
var families = map[string]addr.Family{"ipv4-unicast": addr.V4, "ipv6-unicast": addr.V6}

// family reads the name of a family.
func (r *reader) family(field, name string) (addr.Family, bool) {
	f, ok := families[name]
	if !ok {
		r.note(field, ReasonNotSupported, "%s is not supported, and left out: write ipv4-unicast or ipv6-unicast", quote(name))
	}
	return f, ok
}

func (r *reader) globalFamilies(field string) {
	out := &r.d.State.Global
	names := r.spec.Global.Families
	for i, name := range names {
		f, ok := r.family(at(field+".families", i), name)
		if ok && !slices.Contains(out.Families, f) {
			out.Families = append(out.Families, f)
		}
	}
	switch {
	case len(names) == 0:
		out.Families = []addr.Family{addr.V4, addr.V6}
	case len(out.Families) == 0:
		r.fatal(field+".families", ReasonNotSupported, "no supported address family is in the list: write ipv4-unicast, ipv6-unicast or both")
	}
	slices.Sort(out.Families)
}

func (r *reader) device(field string) {
	name := r.spec.Global.BindToDevice
	if name != "" && !isInterface(name) {
		r.fatal(field+".bindToDevice", ReasonParseError, badInterface, quote(name))
	}
	r.d.State.Global.Device = name
}

const badInterface = "%s is not the name of an interface: it has 1 to 15 characters, without spaces, '/', ':' and '%%'"

// isInterface reports whether the kernel accepts s as the name of an interface, and whether
// it can be the zone of an address.
func isInterface(s string) bool {
	return s != "" && len(s) <= 15 && s != "." && s != ".." && !strings.ContainsFunc(s, func(c rune) bool {
		return c <= ' ' || c == 0x7f || strings.ContainsRune("/:%", c) || c == '\uFFFD'
	})
}

const notEnabled = "is not in effect, because enabled is not true: set it, or remove the rest"

// status reads the options of the node's report.
func (r *reader) status() {
	r.d.StatusEnabled, r.d.Heartbeat = true, defaultHeartbeat
	in := r.spec.Global.NodeStatus
	if in == nil {
		return
	}
	r.d.StatusEnabled = is(in.Enabled, true)
	r.d.Heartbeat = cmp.Or(time.Duration(in.HeartbeatSeconds)*time.Second, defaultHeartbeat)
}
