package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/pool"
)

// form is one of the ways to write a group, as it was used.
type form struct {
	name, field string
	announce    Announce
	pools       v2.Pools
	single      v2.Single
	skipIPv6DAD bool
	// unsupported is why a group of this form is not usable, or "".
	unsupported string
}

// formsOf returns every form that spec uses. There should be one.
func formsOf(spec v2.ServiceGroupSpec) []form {
	var forms []form
	if l := spec.Local; l != nil {
		forms = append(forms, form{
			name: "local", field: "spec.local", announce: announceOf(l.Announce),
			pools: l.Pools, single: l.Single, skipIPv6DAD: l.SkipIPv6DAD,
		})
	}
	if r := spec.Remote; r != nil {
		forms = append(forms, form{name: "remote", field: "spec.remote", announce: AnnounceRemote, pools: r.Pools})
	}
	if spec.Netbox != nil {
		forms = append(forms, form{name: "netbox", field: "spec.netbox", unsupported: notSupported("NetBox")})
	}
	if spec.External != nil {
		forms = append(forms, form{name: "external", field: "spec.external", unsupported: notSupported("an external program")})
	}
	if spec.Single != (v2.Single{}) {
		forms = append(forms, form{name: "the flat form", field: "spec", announce: AnnounceAuto, single: spec.Single})
	}
	return forms
}

func announceOf(a v2.Announce) Announce {
	if a == v2.AnnounceAuto {
		return AnnounceAuto
	}
	return AnnounceLocal
}

func notSupported(who string) string {
	return "addresses from " + who + " are not in effect in this version; use local or remote with a range of addresses"
}

// source is a pool as it was written, and where.
type source struct {
	field string
	text  v2.AddressPool
	// family is what the field is for, or 0 when it is for either, and
	// instead is the field for the other one.
	family  addr.Family
	instead string
}

// sources returns what is written in a form, in the order in which it is tried.
func (f form) sources() []source {
	var all []source
	add := func(field string, family addr.Family, instead string, p ...v2.AddressPool) {
		for _, text := range p {
			all = append(all, source{f.field + field, text, family, instead})
		}
	}
	list := func(field string, family addr.Family, instead string, p []v2.AddressPool) {
		for i, text := range p {
			add(fmt.Sprintf("%s[%d]", field, i), family, instead, text)
		}
	}
	list(".v4pools", addr.V4, "v6pools", f.pools.V4Pools)
	if p := f.pools.V4Pool; p != nil {
		add(".v4pool", addr.V4, "v6pool", *p)
	}
	list(".v6pools", addr.V6, "v4pools", f.pools.V6Pools)
	if p := f.pools.V6Pool; p != nil {
		add(".v6pool", addr.V6, "v4pool", *p)
	}
	if f.single != (v2.Single{}) {
		add("", 0, "", v2.AddressPool(f.single))
	}
	return all
}

// written is a pool and where it is written.
type written struct {
	pool.Pool
	field string
}

// ranges reads all sources of a group. IPv4 comes before IPv6; otherwise the
// order stays.
func (f *findings) ranges(sources []source) []written {
	if len(sources) == 0 {
		f.refuse(ReasonParseError, "spec", "the group has no addresses: add a range as v4pool, v6pool, v4pools or v6pools")
	}
	var ranges []written
	var taken index
	for _, s := range sources {
		p, ok := f.pool(s)
		if !ok {
			continue
		}
		r := written{p, s.field}
		if s.family == 0 {
			f.alone(r, ranges)
		}
		if e, ok := taken.overlapping(p.Range); ok {
			f.overlap(r, ranges[e.pool].Pool, "another pool of the same group")
			continue
		}
		taken = taken.add(entry{Range: p.Range, pool: len(ranges)})
		ranges = append(ranges, r)
	}
	slices.SortStableFunc(ranges, func(a, b written) int { return cmp.Compare(a.Family(), b.Family()) })
	return ranges
}

// pool reads one source.
func (f *findings) pool(s source) (pool.Pool, bool) {
	p, err := pool.Parse(string(s.text.Pool), string(s.text.Subnet), string(s.text.Aggregation))
	if err != nil {
		field, reason := s.field, err.Error()
		if e, ok := errors.AsType[*pool.ParseError](err); ok {
			field, reason = field+"."+e.Field, e.Reason
		}
		f.refuse(ReasonParseError, field, "%s", reason)
		return pool.Pool{}, false
	}
	if s.family != 0 && p.Family() != s.family {
		f.refuse(ReasonParseError, s.field+".pool", "%s is an %s range and %s is for %s; move it to %s",
			addr.Quote(p.Text), p.Family(), s.field, s.family, s.instead)
		return pool.Pool{}, false
	}
	if _, usable := p.Usable(); !usable {
		f.refuse(ReasonParseError, s.field+".pool", "%s has no address that can be handed out: the subnet %s reserves them; "+
			"choose others, or write %s to hand them out all the same", addr.Quote(p.Text), p.Subnet, p.Range)
		return pool.Pool{}, false
	}
	return p, true
}

// alone notes that the oldest way to write a range cannot stand beside others of
// its family: which is tried first would be anybody's guess.
func (f *findings) alone(r written, others []written) {
	for _, other := range others {
		if other.Family() == r.Family() {
			f.refuse(ReasonParseError, r.field+".pool", "%s stands beside another %s range of the group; "+
				"move it to v%dpool or v%[3]dpools", addr.Quote(r.Text), r.Family(), r.Family())
			return
		}
	}
}
