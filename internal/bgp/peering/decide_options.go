package peering

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/addr"
)

// Defaults of sessions. The node retries soon if a router does not answer, because the node gets no
// traffic from that router without a session.
const (
	defaultHold         = 90
	defaultConnectRetry = 2
	leastHold           = 3
	defaultRestart      = 120
	mostRestart         = 4095 // 12 bits in RFC 4724
	defaultDeferral     = 5
	defaultBFDInterval  = 300
	defaultMultiplier   = 3
	defaultBFDTTL       = 254
	longestPassword     = 80 // TCP_MD5SIG_MAXKEYLEN
)

// layer is one of the places that set options of a session: a neighbor, its group, and the
// options for all neighbors.
type layer struct {
	path    string
	config  *bgpv1.PeerConfig
	options *bgpv1.SessionOptions
}

// layers are in order of precedence.
type layers []layer

// interior reports whether the neighbor is in the node's own AS.
func (o Options) interior() bool { return o.ASN != 0 && o.ASN == o.LocalASN }

// globalLayer returns the layer of options for all neighbors.
func (r *reader) globalLayer() layer {
	return layer{"spec.global", &bgpv1.PeerConfig{}, &bgpv1.SessionOptions{GracefulRestart: r.spec.Global.GracefulRestart}}
}

// adjusted reports an option that is in effect with another value than configured. For a group, the
// value is unknown until its neighbors have added their options.
func (r *reader) adjusted(field, format string, args ...any) {
	if !r.template {
		r.note(field, ReasonAdjusted, format, args...)
	}
}

// firstSet returns the first value that is not zero, and its layer. If there is none, it returns
// the first layer.
func firstSet[T comparable](ls layers, get func(layer) T) (T, layer) {
	var zero T
	for _, l := range ls {
		if v := get(l); v != zero {
			return v, l
		}
	}
	return zero, ls[0]
}

// given returns the first value that is not zero, or otherwise. The schema of the CRD limits the value.
func given[T comparable](ls layers, otherwise T, get func(layer) T) T {
	v, _ := firstSet(ls, get)
	return cmp.Or(v, otherwise)
}

// value returns the value that p points to, or zero.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// is reads a boolean with a default.
func is(b *bool, otherwise bool) bool {
	if b == nil {
		return otherwise
	}
	return *b
}

// options reads the options of a session, for a neighbor or a group. It reports whether a
// session with them is possible.
func (r *reader) options(ls layers) (Options, bool) {
	var out Options
	fine := [...]bool{
		r.numbers(ls, &out),
		r.sessionFamilies(ls, &out),
		r.transport(ls, &out),
		r.distance(ls, &out),
	}
	out.Description, _ = firstSet(ls, func(l layer) string { return l.config.Description })
	r.timers(ls, &out)
	r.gracefulRestart(ls, &out)
	r.bfd(ls, &out)
	return out, !slices.Contains(fine[:], false)
}

// sessionFamilies reads the families of the session.
func (r *reader) sessionFamilies(ls layers, out *Options) bool {
	i := slices.IndexFunc(ls, func(l layer) bool { return len(l.options.AFISAFIs) > 0 })
	if i < 0 {
		for _, f := range r.d.State.Global.Families {
			out.Families = append(out.Families, Family{Family: f, MaxPrefixes: DefaultMaxPrefixes})
		}
		return true
	}
	field, ok := ls[i].path+".afiSafis", true
	for j, in := range ls[i].options.AFISAFIs {
		if !is(in.Enabled, true) {
			continue
		}
		read, known, fine := r.sessionFamily(at(field, j), in, *out)
		ok = ok && fine
		if known {
			out.Families = append(out.Families, read)
		}
	}
	if ok && len(out.Families) == 0 {
		return r.refuse(field, ReasonNotSupported, "no supported address family is enabled: write ipv4-unicast or ipv6-unicast, or remove afiSafis")
	}
	slices.SortFunc(out.Families, func(a, b Family) int { return int(a.Family) - int(b.Family) })
	return ok
}

// sessionFamily reads a family. known says that the family is known. fine says that its mistakes,
// if it has any, do not prevent the session.
func (r *reader) sessionFamily(field string, in bgpv1.AFISAFI, before Options) (out Family, known, fine bool) {
	f, ok := r.family(field+".family", in.Family)
	if !ok {
		return Family{}, false, true
	}
	out.Family = f
	switch {
	case before.exchanges(f):
		r.note(field+".family", ReasonDuplicate, "%s is there twice: remove one", in.Family)
		return Family{}, false, true
	case !slices.Contains(r.d.State.Global.Families, f):
		r.note(field+".family", ReasonConflict, "%s is not among spec.global.families, and left out: add it there", in.Family)
		return Family{}, false, true
	}
	return out, true, r.prefixLimit(field+".prefixLimit", in.PrefixLimit, &out)
}

// DefaultMaxPrefixes is the default limit of prefixes that a neighbor may announce of a
// family. The routes of other nodes that a router sends back count too. Two routers with both families
// fit into the memory of the container.
const DefaultMaxPrefixes = 40_000

// prefixLimit reads the prefix limit. The limit is a protection, so a mistake in it is not
// ignored.
func (r *reader) prefixLimit(field string, in *bgpv1.PrefixLimit, out *Family) bool {
	if in == nil {
		out.MaxPrefixes = DefaultMaxPrefixes
		return true
	}
	if in.MaxPrefixes < 0 {
		return r.refuse(field+".maxPrefixes", ReasonParseError, "%d is not a number of prefixes: write 1 or more, or remove the limit", in.MaxPrefixes)
	}
	out.MaxPrefixes = uint32(in.MaxPrefixes)
	if in.ShutdownThresholdPct < 0 || in.ShutdownThresholdPct > 100 {
		r.note(field+".shutdownThresholdPct", ReasonParseError, "%d is not from 1 to 100 percent, so there is no warning", in.ShutdownThresholdPct)
		return true
	}
	out.WarnPercent = uint8(in.ShutdownThresholdPct)
	return true
}

func (o Options) exchanges(f addr.Family) bool {
	return slices.ContainsFunc(o.Families, func(e Family) bool { return e.Family == f })
}

// transport reads the transport options. A mistake in them is not ignored, because the session
// would use another address than the neighbor expects.
func (r *reader) transport(ls layers, out *Options) bool {
	ok := r.localAddress(ls, out)
	if name, from := firstSet(ls, func(l layer) string { return value(l.options.Transport).BindInterface }); name != "" {
		if !isInterface(name) {
			ok = r.refuse(from.path+".transport.bindInterface", ReasonParseError, badInterface, quote(name))
		}
		out.Device = name
	}
	passive, _ := firstSet(ls, func(l layer) *bool { return value(l.options.Transport).PassiveMode })
	out.Passive = is(passive, false)
	return ok
}

// distance reads how many hops away the neighbor may be.
func (r *reader) distance(ls layers, out *Options) bool {
	if !r.multihop(ls, out) {
		return false
	}
	enabled, _ := firstSet(ls, func(l layer) *bool { return value(l.options.TTLSecurity).Enabled })
	if there, _ := firstSet(ls, func(l layer) bool { return l.options.TTLSecurity != nil }); there && is(enabled, true) {
		out.TTLSecurity = uint8(given(ls, math.MaxUint8, func(l layer) int32 { return value(l.options.TTLSecurity).TTLMin }))
	}
	_, from := firstSet(ls, func(l layer) *bool { return value(l.options.EBGPMultihop).Enabled })
	switch {
	case out.Multihop == 0:
	case out.TTLSecurity != 0:
		return r.refuse(from.path+".ebgpMultihop", ReasonConflict, "ebgpMultihop and ttlSecurity exclude each other: disable one of them")
	case out.interior():
		r.adjusted(from.path+".ebgpMultihop", "is not in effect, because the neighbor is in the node's own AS, where it may be anywhere: remove it")
		out.Multihop = 0
	case out.External && out.Multihop < math.MaxUint8:
		r.adjusted(from.path+".ebgpMultihop.multihopTtl", "is not in effect, because peerAsn is external: packets have the TTL of the node's kernel, which is 64 by default."+
			" Write the number of the neighbor's AS, or remove this")
	}
	return true
}

func (r *reader) multihop(ls layers, out *Options) bool {
	enabled, _ := firstSet(ls, func(l layer) *bool { return value(l.options.EBGPMultihop).Enabled })
	ttl, from := firstSet(ls, func(l layer) int32 { return value(l.options.EBGPMultihop).MultihopTTL })
	if !is(enabled, false) {
		if enabled == nil && ttl != 0 {
			r.adjusted(from.path+".ebgpMultihop", notEnabled)
		}
		return true
	}
	if ttl < 0 || ttl > math.MaxUint8 {
		return r.refuse(from.path+".ebgpMultihop.multihopTtl", ReasonParseError, "%d is not a TTL: write one from 1 to 255", ttl)
	}
	out.Multihop = uint8(cmp.Or(ttl, math.MaxUint8))
	return true
}

// timers reads the timers of the session.
func (r *reader) timers(ls layers, out *Options) {
	hold := r.ranged(ls, ".timers.config.holdTime", leastHold, math.MaxUint16, defaultHold,
		func(l layer) int64 { return value(l.options.Timers).Config.HoldTime })
	keepalive := r.ranged(ls, ".timers.config.keepaliveInterval", 1, math.MaxUint16, hold/3,
		func(l layer) int64 { return value(l.options.Timers).Config.KeepaliveInterval })
	if keepalive >= hold {
		_, from := firstSet(ls, func(l layer) int64 { return value(l.options.Timers).Config.KeepaliveInterval })
		r.adjusted(from.path+".timers.config.keepaliveInterval", "%d is not less than the holdTime of %d, so %d is used: write a third of it", keepalive, hold, hold/3)
		keepalive = hold / 3
	}
	retry := r.ranged(ls, ".timers.config.connectRetry", 1, math.MaxUint16, defaultConnectRetry,
		func(l layer) int64 { return value(l.options.Timers).Config.ConnectRetry })
	out.Timers = Timers{
		Hold: time.Duration(hold) * time.Second, Keepalive: time.Duration(keepalive) * time.Second,
		ConnectRetry: time.Duration(retry) * time.Second,
	}
}

// gracefulRestart reads the options of graceful restart.
func (r *reader) gracefulRestart(ls layers, out *Options) {
	enabled, _ := firstSet(ls, func(l layer) *bool { return value(l.options.GracefulRestart).Enabled })
	if !is(enabled, false) {
		for _, l := range ls {
			if g := l.options.GracefulRestart; enabled == nil && g != nil && *g != (bgpv1.GracefulRestart{}) {
				r.adjusted(l.path+".gracefulRestart", notEnabled)
			}
		}
		return
	}
	helper, _ := firstSet(ls, func(l layer) *bool { return value(l.options.GracefulRestart).HelperOnly })
	out.GracefulRestart = GracefulRestart{
		Enabled:    true,
		HelperOnly: is(helper, false),
		Restart: time.Second * time.Duration(r.ranged(ls, ".gracefulRestart.restartTime", 1, mostRestart, defaultRestart,
			func(l layer) int64 { return int64(value(l.options.GracefulRestart).RestartTime) })),
		Deferral: time.Second * time.Duration(given(ls, defaultDeferral, func(l layer) int32 { return value(l.options.GracefulRestart).DeferralTime })),
	}
}

// ranged reads a number of seconds that older versions stored without a limit. For 0 and for a number out of range it returns the default.
func (r *reader) ranged(ls layers, field string, least, most, otherwise int64, get func(layer) int64) int64 {
	n, from := firstSet(ls, get)
	switch {
	case n == 0:
		return otherwise
	case n < least || n > most:
		r.note(from.path+field, ReasonParseError, "%d is not from %d to %d seconds, so %d is used", n, least, most, otherwise)
		return otherwise
	}
	return n
}

// bfd reads the BFD timers.
func (r *reader) bfd(ls layers, out *Options) {
	enabled, from := firstSet(ls, func(l layer) *bool { return value(l.options.BFD).Enabled })
	if there, _ := firstSet(ls, func(l layer) bool { return l.options.BFD != nil }); !there || !is(enabled, true) {
		return
	}
	out.BFD = &BFD{
		MinTransmit: time.Millisecond * time.Duration(given(ls, defaultBFDInterval, func(l layer) int32 { return value(l.options.BFD).MinTransmitIntervalMilliseconds })),
		MinReceive:  time.Millisecond * time.Duration(given(ls, defaultBFDInterval, func(l layer) int32 { return value(l.options.BFD).MinReceiveIntervalMilliseconds })),
		Multiplier:  uint8(given(ls, defaultMultiplier, func(l layer) int32 { return value(l.options.BFD).DetectionMultiplier })),
		MinTTL:      r.bfdTTL(ls, out),
	}
	passive, _ := firstSet(ls, func(l layer) *bool { return value(l.options.BFD).Passive })
	out.BFD.Passive = is(passive, false)
	if detection := out.BFD.MinTransmit * time.Duration(out.BFD.Multiplier); detection >= out.Timers.Hold && !r.template {
		r.note(from.path+".bfd", ReasonConflict, "BFD detects a dead node after %v or later, and the holdTime ends the session after %v: lower minTransmitIntervalMilliseconds or detectionMultiplier",
			detection, out.Timers.Hold)
	}
}

// bfdTTL reads the lowest TTL of BFD packets, or returns 0 if the neighbor is on the same link. For
// a neighbor with ebgpMultihop, that option sets the allowed distance.
func (r *reader) bfdTTL(ls layers, out *Options) uint8 {
	multihop, _ := firstSet(ls, func(l layer) *bool { return value(l.options.BFD).Multihop })
	least, from := firstSet(ls, func(l layer) int32 { return value(l.options.BFD).MinimumTTL })
	if !is(multihop, out.Multihop > 1) {
		if least != 0 {
			r.adjusted(from.path+".bfd.minimumTtl", "is not in effect, because BFD is not multihop: set multihop, or remove it")
		}
		return 0
	}
	otherwise := int32(defaultBFDTTL)
	if out.Multihop > 1 {
		otherwise = math.MaxUint8 + 1 - int32(out.Multihop)
	}
	return uint8(cmp.Or(least, otherwise))
}

// password reads the key of TCP-MD5. Its problems never contain the password.
func (r *reader) password(ls layers) (string, bool) {
	ref, from := firstSet(ls, func(l layer) *bgpv1.SecretKeyRef { return l.config.AuthPasswordSecretRef })
	text, fromText := firstSet(ls, func(l layer) string { return l.config.AuthPassword })
	field := fromText.path + ".config.authPassword"
	if ref != nil && (text == "" || !closer(ls, fromText, from)) {
		field = from.path + ".config.authPasswordSecretRef"
		var err error
		if text, err = r.secrets(ref.Name, ref.Key); err != nil {
			if ref.Optional {
				return "", true
			}
			return "", r.refuse(field, ReasonSecret, "%v", err)
		}
		if text == "" {
			return "", r.refuse(field, ReasonSecret, "the key %s of the secret %s is empty: put the password there", quote(ref.Key), quote(ref.Name))
		}
	}
	if len(text) > longestPassword {
		return "", r.refuse(field, ReasonSecret, "the password has %d bytes, and the kernel takes 80: make it shorter", len(text))
	}
	if strings.ContainsRune(text, 0) {
		return "", r.refuse(field, ReasonSecret, "the password has a zero byte, which no router accepts: remove it")
	}
	if strings.HasSuffix(text, "\n") {
		r.note(field, ReasonSecret, "the password ends with a line break, which the password of a router cannot have: write it without one, as by printf")
	}
	return text, true
}

// closer reports whether a has precedence over b.
func closer(ls layers, a, b layer) bool {
	index := func(l layer) int {
		return slices.IndexFunc(ls, func(e layer) bool { return e.path == l.path })
	}
	return index(a) < index(b)
}
