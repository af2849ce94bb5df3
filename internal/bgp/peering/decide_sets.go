package peering

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/addr"
)

// reserved is the prefix of the names that Decide adds itself.
const reserved = "purelb:"

// setKey identifies a set, because sets of different kinds may have the same name.
type setKey struct {
	kind SetKind
	name string
}

// usableSet is a set of the configuration, with or without mistakes.
type usableSet struct {
	Set
	ok bool
}

// definedSets reads all sets. Valid sets become part of the State.
func (r *reader) definedSets() {
	r.sets = make(map[setKey]usableSet, len(r.spec.DefinedSets))
	for i, in := range r.spec.DefinedSets {
		field := at("spec.definedSets", i)
		kind := SetKind(in.Type)
		if in.Name == "" || strings.HasPrefix(in.Name, reserved) {
			r.note(field+".name", ReasonParseError, badName, quote(in.Name))
			continue
		}
		if !slices.Contains([]SetKind{PrefixSet, NeighborSet, ASPathSet, CommunitySet, LargeCommunitySet}, kind) {
			r.note(field+".type", ReasonNotSupported,
				"%s is not a kind of set: write prefix, neighbor, as-path, community or large-community", quote(in.Type))
			continue
		}
		key := setKey{kind, in.Name}
		if _, there := r.sets[key]; there {
			r.note(field+".name", ReasonDuplicate, "an earlier %s set has the name %s, so this one is not in use: write another", kind, quote(in.Name))
			continue
		}
		set, ok := r.definedSet(field, kind, in)
		r.sets[key] = usableSet{set, ok}
		if ok {
			r.d.State.Sets = append(r.d.State.Sets, set)
		}
	}
}

const badName = "%s cannot be a name: write one that is not empty and does not begin with " + reserved

func (r *reader) definedSet(field string, kind SetKind, in bgpv1.DefinedSet) (Set, bool) {
	out := Set{Kind: kind, Name: in.Name, Path: field}
	if kind == PrefixSet {
		return out, r.prefixSet(field, in, &out)
	}
	ok := true
	if len(in.Prefixes) > 0 {
		ok = r.refuse(field+".prefixes", ReasonParseError, "only sets of type prefix have prefixes: write list, or change the type; the set is not in use")
	}
	if len(in.List) == 0 {
		return out, r.refuse(field+".list", ReasonParseError, "the set is empty, and not in use: write list")
	}
	for i, text := range in.List {
		plain, err := element(kind, text)
		switch {
		case err == "":
		case r.isOldWord(kind, text):
			plain = text
			r.note(at(field+".list", i), ReasonNotFound, "%s %s; until then it matches nothing", quote(text), err)
		default:
			ok = r.refuse(at(field+".list", i), ReasonParseError, "%s %s; the set is not in use", quote(text), err)
		}
		out.List = append(out.List, plain)
	}
	return out, ok
}

// isOldWord reports whether an element may be from an old manifest. Earlier versions accepted any word,
// which matched no community. Words for communities (communityAliases) are not in old manifests.
func (r *reader) isOldWord(kind SetKind, text string) bool {
	return (kind == CommunitySet || kind == LargeCommunitySet) && len(r.spec.CommunityAliases) == 0 && isWord(text)
}

// word matches no community, and no regular expression that matches communities.
var word = regexp.MustCompile(`^[a-z][-a-z0-9]*$`)

func isWord(text string) bool { return word.MatchString(strings.TrimSpace(text)) }

// element reads an element of a set. It returns its usual text, or what is wrong with it.
func element(kind SetKind, text string) (plain, wrong string) {
	switch kind {
	case NeighborSet:
		p, ok := neighborPrefix(text)
		if !ok {
			return "", "is neither an IP address nor a network"
		}
		return p.String(), ""
	case ASPathSet:
		return text, badExpression(strings.ReplaceAll(text, "_", "(^|[,{}() ]|$)"))
	case CommunitySet:
		c, err := parseCommunity(text)
		if err == nil {
			return communityText(c), ""
		}
		return expression(text, err)
	case LargeCommunitySet:
		c, err := parseLarge(text)
		if err == nil {
			return c, ""
		}
		return expression(text, err)
	}
	return text, badExpression(text)
}

// expression reads a regular expression over communities. It refuses a name, because a name would
// match no community. err is the error of reading the text as a community.
func expression(text string, err error) (plain, wrong string) {
	if isWord(text) {
		return "", strings.TrimPrefix(err.Error(), quote(strings.TrimSpace(text))+" ")
	}
	return text, badExpression(text)
}

// badExpression says what is wrong with a regular expression, or returns "".
func badExpression(text string) string {
	if text == "" {
		return "would match everything"
	}
	if _, err := regexp.Compile(text); err != nil {
		return "is not a regular expression"
	}
	return ""
}

// neighborPrefix reads an address or a network of neighbors.
func neighborPrefix(text string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(text); err == nil {
		return p.Masked(), !p.Addr().Is4In6()
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Is4In6() || a.Zone() != "" {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(a, a.BitLen()), true
}

func (r *reader) prefixSet(field string, in bgpv1.DefinedSet, out *Set) bool {
	ok := true
	if len(in.List) > 0 {
		ok = r.refuse(field+".list", ReasonParseError, "sets of type prefix have no list: write prefixes; the set is not in use")
	}
	if len(in.Prefixes) == 0 {
		return r.refuse(field+".prefixes", ReasonParseError, "the set is empty, and not in use: write prefixes")
	}
	for i, p := range in.Prefixes {
		field := at(field+".prefixes", i)
		read, fine := r.prefixRange(field, p)
		if !fine {
			ok = false
			continue
		}
		family := addr.FamilyOf(read.Prefix.Addr())
		if out.Family == 0 {
			out.Family = family
		}
		if out.Family != family {
			ok = r.refuse(field+".ipPrefix", ReasonConflict,
				"%s is %s and the others of the set are %s, so it is not in use: make two sets of them", read.Prefix, family, out.Family)
			continue
		}
		out.Prefixes = append(out.Prefixes, read)
	}
	return ok
}

func (r *reader) prefixRange(field string, in bgpv1.PrefixMatch) (PrefixRange, bool) {
	p, err := netip.ParsePrefix(in.IPPrefix)
	if err != nil || p.Addr().Is4In6() {
		return PrefixRange{}, r.refuse(field+".ipPrefix", ReasonParseError,
			"%s is not a network: write one such as 192.0.2.0/24; the set is not in use", quote(in.IPPrefix))
	}
	p = p.Masked()
	shortest, longest := in.MaskLengthMin, in.MaskLengthMax
	if shortest == 0 {
		shortest = int32(p.Bits())
	}
	if longest == 0 {
		longest = shortest
	}
	bits := int32(p.Addr().BitLen())
	switch {
	case shortest < int32(p.Bits()) || shortest > bits:
		return PrefixRange{}, r.refuse(field+".maskLengthMin", ReasonParseError,
			"%d is not the length of a mask in %s: write a number from %d to %d; the set is not in use", shortest, p, p.Bits(), bits)
	case longest < shortest || longest > bits:
		return PrefixRange{}, r.refuse(field+".maskLengthMax", ReasonParseError,
			"%d is not the length of a mask in %s: write a number from %d to %d; the set is not in use", longest, p, shortest, bits)
	}
	return PrefixRange{Prefix: p, Min: uint8(shortest), Max: uint8(longest)}, true
}
