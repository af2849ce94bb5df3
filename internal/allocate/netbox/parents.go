package netbox

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/config"
)

// kind is the kind of place in which addresses are created.
type kind string

const (
	kindPrefix kind = "prefix"
	kindRange  kind = "range"
)

func kindOf(p config.NetBoxParent) kind {
	if p.Range {
		return kindRange
	}
	return kindPrefix
}

// path returns the API path for parents of this kind.
func (k kind) path() string {
	if k == kindRange {
		return "ipam/ip-ranges/"
	}
	return "ipam/prefixes/"
}

// inWords says for people what p names.
func inWords(p config.NetBoxParent) string {
	var parts []string
	say := func(name, value string) {
		if value != "" {
			parts = append(parts, name+" "+value)
		}
	}
	if p.ID != 0 {
		say("id", fmt.Sprint(p.ID))
	}
	if p.Prefix.IsValid() {
		say("prefix", p.Prefix.String())
	}
	if p.Start.IsValid() {
		say("start", p.Start.String())
	}
	say("VRF", p.VRF)
	return string(kindOf(p)) + " with " + strings.Join(parts, ", ")
}

// query returns the filter for p. matches compares VRFs later, because NetBox filters
// only by their ids.
func query(p config.NetBoxParent) url.Values {
	if p.Range {
		return url.Values{"start_address": {p.Start.String()}}
	}
	return url.Values{"prefix": {p.Prefix.String()}}
}

// matches reports whether p describes b. A server may ignore a filter.
func matches(p config.NetBoxParent, b block) bool {
	place := b.Prefix == p.Prefix.String()
	if p.Range {
		place = b.start() == p.Start
	}
	return p.ID != 0 || place && matchesVRF(p.VRF, b.VRF)
}

// matchesVRF reports whether name, as a user writes it, means vrf.
func matchesVRF(name string, vrf *reference) bool {
	switch {
	case name == "":
		return true
	case vrf == nil:
		return name == config.GlobalVRF
	default:
		return name == vrf.Name || name == vrf.RD
	}
}

func (b block) start() netip.Addr {
	start, err := netip.ParsePrefix(b.Start)
	if err != nil {
		return netip.Addr{}
	}
	return start.Addr()
}

// parent is a prefix or IP range that was found in NetBox.
type parent struct {
	kind   kind
	id     int64
	vrf    *reference
	bits   int
	span   addr.Range
	isPool bool
	// populated says that NetBox counts all addresses of the range as taken.
	populated bool
}

// readParent reads an object that NetBox sent.
func readParent(k kind, b block) (parent, error) {
	p := parent{kind: k, id: b.ID, vrf: b.VRF, isPool: b.IsPool, populated: b.Populated}
	if k == kindPrefix {
		prefix, err := netip.ParsePrefix(b.Prefix)
		if err != nil {
			return parent{}, fmt.Errorf("%q is not a prefix: %w", b.Prefix, err)
		}
		p.bits = prefix.Bits()
		p.span = addr.Range{From: prefix.Masked().Addr(), To: addr.Last(prefix)}
		return p, nil
	}
	first, err := netip.ParsePrefix(b.Start)
	if err != nil {
		return parent{}, fmt.Errorf("%q is not the first address of a range: %w", b.Start, err)
	}
	last, err := netip.ParsePrefix(b.End)
	if err != nil || last.Addr().Less(first.Addr()) || last.Addr().BitLen() != first.Addr().BitLen() {
		return parent{}, fmt.Errorf("%q is not the last address of a range that begins with %s", b.End, b.Start)
	}
	p.bits = first.Bits()
	p.span = addr.Range{From: first.Addr(), To: last.Addr()}
	return p, nil
}

func (p parent) String() string {
	return fmt.Sprintf("%s %s (id %d, %s)", p.kind, p.notation(), p.id, vrfName(p.vrf))
}

// notation returns p in the form that people write.
func (p parent) notation() string {
	if p.kind == kindPrefix {
		return netip.PrefixFrom(p.span.From, p.bits).String()
	}
	return p.span.From.String() + "-" + p.span.To.String()
}

func vrfName(vrf *reference) string {
	if vrf == nil {
		return "global table"
	}
	return "VRF " + vrf.Name
}

// family returns the family of the addresses.
func (p parent) family() addr.Family { return p.span.Family() }

// usable returns the addresses that NetBox gives from p. It omits the network and the
// broadcast address of a prefix, unless the prefix is a pool.
func (p parent) usable() addr.Range {
	r := p.span
	short := p.family().Bits()-p.bits < 2
	if p.kind == kindRange || p.isPool || short {
		return r
	}
	r.From = r.From.Next()
	if p.family() == addr.V4 {
		r.To = r.To.Prev()
	}
	return r
}

// choose returns the parent that a description names. If several match, choose refuses them, with the
// list.
func choose(description config.NetBoxParent, found []block) (parent, *ipam.Error) {
	var matching []parent
	for _, b := range found {
		if !matches(description, b) {
			continue
		}
		p, err := readParent(kindOf(description), b)
		if err != nil {
			return parent{}, misconfigured("NetBox has a %s with id %d that cannot be used: %v", kindOf(description), b.ID, err)
		}
		matching = append(matching, p)
	}
	switch len(matching) {
	case 0:
		return parent{}, misconfigured("NetBox has no %s that the token may see: make it, correct the group, or let the token's user view it", inWords(description))
	case 1:
		return matching[0], nil
	}
	return parent{}, misconfigured("NetBox has more than one %s: %s; give the group the id of one of them", inWords(description), names(matching))
}

func ofFamily(list []parent, f addr.Family) []parent {
	return slices.DeleteFunc(slices.Clone(list), func(p parent) bool { return p.family() != f })
}

// names lists parents for people, at most ten.
func names(list []parent) string {
	var texts []string
	for i, p := range list {
		if i == 10 {
			texts = append(texts, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ", ")
}
