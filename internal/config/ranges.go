package config

import (
	"cmp"
	"errors"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
)

// written is a pool, and where it is written.
type written struct {
	groups.Pool
	field string
}

// rangesOf reads all ranges of a group. It puts IPv4 before IPv6 and otherwise keeps their
// order.
func (f *findings) rangesOf(form form) []written {
	sources := form.sources()
	if len(sources) == 0 {
		f.refuse(ReasonParseError, "spec", "the group has no addresses: add a range as v4pool, v6pool, v4pools or v6pools")
	}
	var ranges []written
	var taken addr.Index[groups.Pool]
	for _, s := range sources {
		p, ok := f.pool(s, form.announce)
		if !ok {
			continue
		}
		r := written{p, s.field}
		f.routes(r, form.announce)
		if s.family == 0 {
			f.alone(r, ranges)
		}
		if other, ok := taken.Overlapping(p.Range); ok {
			f.overlap(r, other, "another pool of the same group")
			continue
		}
		taken.Add(p.Range, p)
		ranges = append(ranges, r)
	}
	slices.SortStableFunc(ranges, func(a, b written) int { return cmp.Compare(a.Family(), b.Family()) })
	return ranges
}

// pool reads one source. A range is virtual if it is not for the interfaces of
// nodes and each address has a route of its own. The networks of nodes may still
// change that: see OnNodes.
func (f *findings) pool(s source, announce groups.Announce) (groups.Pool, bool) {
	p, err := s.parse()
	if err != nil {
		field, reason := s.field, err.Error()
		if e, ok := errors.AsType[*groups.ParseError](err); ok {
			field, reason = field+"."+e.Field, e.Reason
		}
		f.refuse(ReasonParseError, field, "%s", reason)
		return groups.Pool{}, false
	}
	if s.family != 0 && p.Family() != s.family {
		f.refuse(ReasonParseError, s.field+".pool", "%s is an %s range and %s is for %s; move it to %s",
			addr.Quote(p.Text), p.Family(), s.field, s.family, s.instead)
		return groups.Pool{}, false
	}
	p.Virtual = announce != groups.AnnounceLocal && p.Bits == p.Family().Bits()
	if misread := p.Misread(); misread != "" {
		f.warn(ReasonAdjusted, s.field+".pool", "%s", misread)
	}
	return p, f.offers(p, s)
}

func (s source) parse() (groups.Pool, error) {
	exclude := make([]string, len(s.text.Exclude))
	for i, e := range s.text.Exclude {
		exclude[i] = string(e)
	}
	p, err := groups.ParsePool(string(s.text.Pool), string(s.text.Subnet), string(s.text.Aggregation), exclude...)
	p.Draining = s.text.Drain
	return p, err
}

// offers reports whether p has addresses to hand out. A pool that excludes all of
// its addresses is still used, because Services may hold some of them.
func (f *findings) offers(p groups.Pool, s source) bool {
	if len(p.Usable()) > 0 {
		return true
	}
	all := p
	all.Exclude = nil
	if len(all.Usable()) > 0 {
		f.warn(ReasonAdjusted, s.field+".exclude", "takes in every address of %s, so none is handed out: "+
			"leave some of them out, or write drain: true if this is meant", addr.Quote(p.Text))
		return true
	}
	f.refuse(ReasonParseError, s.field+".pool", "%s has no address that can be handed out: the subnet %s reserves them; "+
		"choose others, or write %s to hand them out all the same", addr.Quote(p.Text), p.Subnet, p.Range)
	return false
}

// alone refuses a range in the oldest notation if there is another range of its family, because the
// order of the two is undefined.
func (f *findings) alone(r written, others []written) {
	for _, other := range others {
		if other.Family() == r.Family() {
			f.refuse(ReasonParseError, r.field+".pool", "%s stands beside another %s range of the group; "+
				"move it to v%dpool or v%[3]dpools", addr.Quote(r.Text), r.Family(), r.Family())
			return
		}
	}
}
