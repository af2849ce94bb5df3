package peering

import (
	"math"
	"slices"
	"strconv"
	"strings"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
)

// policy is a policy of the configuration, with or without mistakes.
type policy struct {
	path       string
	statements []Statement
	ok         bool
}

// definedPolicies reads all policies.
func (r *reader) definedPolicies() {
	r.policies = make(map[string]policy, len(r.spec.PolicyDefinitions))
	for i, in := range r.spec.PolicyDefinitions {
		field := at("spec.policyDefinitions", i)
		if in.Name == "" || strings.HasPrefix(in.Name, reserved) {
			r.note(field+".name", ReasonParseError, badName, quote(in.Name))
			continue
		}
		if _, there := r.policies[in.Name]; there {
			r.note(field+".name", ReasonDuplicate, "an earlier policy has the name %s, so this one is not in use: write another", quote(in.Name))
			continue
		}
		r.policies[in.Name] = r.policy(field, in)
	}
}

func (r *reader) policy(field string, in bgpv1.PolicyDefinition) policy {
	out := policy{path: field, ok: true}
	for i, s := range in.Statements {
		field := at(field+".statements", i)
		name := s.Name
		if name == "" {
			name = strconv.Itoa(i)
		}
		name = in.Name + "/" + name
		if slices.ContainsFunc(out.statements, func(s Statement) bool { return s.Name == name }) {
			out.ok = r.refuse(field+".name", ReasonDuplicate, "an earlier statement has the name %s: write another; the policy is not in use", quote(s.Name))
		}
		conditions, okConditions := r.conditions(field+".conditions", s.Conditions)
		actions, okActions := r.actions(field+".actions", s.Actions)
		out.ok = out.ok && okConditions && okActions
		out.statements = append(out.statements, Statement{Name: name, If: conditions, Then: actions, Path: field})
	}
	return out
}

func (r *reader) conditions(field string, in bgpv1.Conditions) (Conditions, bool) {
	var out Conditions
	ok := true
	for _, c := range []struct {
		field string
		kind  SetKind
		in    *bgpv1.MatchSet
		out   **SetRef
	}{
		{".prefixSet", PrefixSet, in.PrefixSet, &out.Prefixes},
		{".neighborSet", NeighborSet, in.NeighborSet, &out.Neighbors},
		{".asPathSet", ASPathSet, in.ASPathSet, &out.ASPaths},
		{".communitySet", CommunitySet, in.CommunitySet, &out.Communities},
		{".largeCommunitySet", LargeCommunitySet, in.LargeCommunitySet, &out.LargeCommunities},
	} {
		if c.in != nil {
			var fine bool
			*c.out, fine = r.match(field+c.field, c.kind, *c.in)
			ok = ok && fine
		}
	}
	if in.RPKIResult != "" && in.RPKIResult != "none" {
		ok = r.refuse(field+".rpkiResult", ReasonNotSupported, "there is no RPKI validator to ask, so this never holds: remove it; the policy is not in use")
	}
	return out, ok
}

// match reads a reference to a set.
func (r *reader) match(field string, kind SetKind, in bgpv1.MatchSet) (*SetRef, bool) {
	set, there := r.sets[setKey{kind, in.Name}]
	switch {
	case !there:
		return nil, r.refuse(field+".name", ReasonNotFound, "there is no %s set %s in spec.definedSets; the policy is not in use", kind, quote(in.Name))
	case !set.ok:
		return nil, r.refuse(field+".name", ReasonNotFound, "the %s set %s has a mistake (see %s); the policy is not in use", kind, quote(in.Name), set.Path)
	}
	ref := &SetRef{Name: in.Name, Match: Match(in.Match)}
	switch ref.Match {
	case "":
		ref.Match = Any
	case Any, Invert:
	case All:
		if kind == PrefixSet || kind == NeighborSet {
			return nil, r.refuse(field+".match", ReasonParseError, "a route cannot match all of a %s set: write any or invert; the policy is not in use", kind)
		}
	default:
		return nil, r.refuse(field+".match", ReasonParseError, "%s is not a way to match: write any, all or invert; the policy is not in use", quote(in.Match))
	}
	return ref, true
}

func (r *reader) actions(field string, in bgpv1.Actions) (Actions, bool) {
	var out Actions
	var ok [6]bool
	out.Verdict, ok[0] = r.verdict(field+".routeAction", in.RouteAction)
	out.Communities, ok[1] = r.communityAction(field+".community", in.Community)
	out.LargeCommunities, ok[2] = r.largeCommunityAction(field+".largeCommunity", in.LargeCommunity)
	out.MED, ok[3] = r.med(field+".med", in.MED)
	out.Prepend, ok[4] = r.prepend(field+".asPrepend", in.ASPrepend)
	out.LocalPref, ok[5] = r.localPref(field+".localPref", in.LocalPref)
	return out, !slices.Contains(ok[:], false)
}

// localPref reads a local preference. BGP allows the value 0, but GoBGP cannot set it. In older
// manifests 0 means that the statement sets none.
func (r *reader) localPref(field string, in *int64) (*uint32, bool) {
	if in == nil {
		return nil, true
	}
	if *in == 0 {
		r.note(field, ReasonAdjusted, "0 leaves the local preference of the route as it is: remove it, or write a number from 1 to 4294967295")
		return nil, true
	}
	if *in < 1 || *in > math.MaxUint32 {
		return nil, r.refuse(field, ReasonParseError, "%d cannot be set as a local preference: write a number from 1 to 4294967295; the policy is not in use", *in)
	}
	v := uint32(*in)
	return &v, true
}

func (r *reader) verdict(field, text string) (Verdict, bool) {
	v, ok := verdictOf(text)
	if !ok {
		r.refuse(field, ReasonParseError, "%s is neither accept nor reject; the policy is not in use", quote(text))
	}
	return v, ok
}

// verdictOf reads a verdict.
func verdictOf(text string) (v Verdict, ok bool) {
	switch text {
	case "", "none":
		return Continue, true
	case "accept":
		return Accept, true
	case "reject":
		return Reject, true
	}
	return Reject, false
}

// change reads an operation on a list.
func (r *reader) change(field, text string) (Change, bool) {
	switch c := Change(text); c {
	case "":
		return Add, true
	case Add, Remove, Replace:
		return c, true
	}
	return "", r.refuse(field+".type", ReasonParseError, "%s is none of add, remove and replace; the policy is not in use", quote(text))
}

func (r *reader) communityAction(field string, in *bgpv1.CommunityAction) (*CommunityChange, bool) {
	if in == nil {
		return nil, true
	}
	return r.communityChange(field, in.Type, in.Communities, func(text string) (string, error) {
		c, err := parseCommunity(text)
		return communityText(c), err
	})
}

func (r *reader) largeCommunityAction(field string, in *bgpv1.LargeCommunityAction) (*CommunityChange, bool) {
	if in == nil {
		return nil, true
	}
	return r.communityChange(field, in.Type, in.Communities, parseLarge)
}

func (r *reader) communityChange(field, kind string, list []string, parse func(string) (string, error)) (*CommunityChange, bool) {
	change, ok := r.change(field, kind)
	out := &CommunityChange{Change: change}
	for i, text := range list {
		c, err := parse(text)
		if err != nil {
			ok = r.refuse(at(field+".communities", i), ReasonParseError, "%v; the policy is not in use", err)
		}
		out.List = append(out.List, c)
	}
	if len(list) > mostCommunities && change != Remove {
		ok = r.refuse(field+".communities", ReasonParseError, "there are %d elements, and a statement can have %d: remove some; the policy is not in use", len(list), mostCommunities)
	}
	if len(list) == 0 && change != Replace {
		ok = r.refuse(field+".communities", ReasonParseError, "there is nothing to %s: write communities; the policy is not in use", change)
	}
	return out, ok
}

func (r *reader) med(field string, in *bgpv1.MEDAction) (*MEDChange, bool) {
	if in == nil {
		return nil, true
	}
	out := &MEDChange{Modify: in.Type == "mod", Value: in.Value}
	switch {
	case in.Type != "" && in.Type != "mod" && in.Type != "replace":
		return nil, r.refuse(field+".type", ReasonParseError, "%s is neither mod nor replace; the policy is not in use", quote(in.Type))
	case !out.Modify && (in.Value < 0 || in.Value > math.MaxUint32),
		out.Modify && (in.Value < -math.MaxUint32 || in.Value > math.MaxUint32):
		return nil, r.refuse(field+".value", ReasonParseError, "%d is not a MED: write a number from 0 to 4294967295; the policy is not in use", in.Value)
	case out.Modify && in.Value == 0:
		r.note(field+".value", ReasonAdjusted, "0 leaves the MED of the route as it is: remove it, or write another number")
		return nil, true
	}
	return out, true
}

func (r *reader) prepend(field string, in *bgpv1.ASPrepend) (*Prepend, bool) {
	if in == nil {
		return nil, true
	}
	out := &Prepend{ASN: r.d.State.Global.ASN, Repeat: 1}
	if in.ASN != 0 {
		var ok bool
		if out.ASN, ok = asn(in.ASN); !ok {
			return nil, r.refuse(field+".asn", ReasonParseError, badASN+"; the policy is not in use", in.ASN)
		}
	}
	if in.Repeat < 0 || in.Repeat > math.MaxUint8 {
		return nil, r.refuse(field+".repeat", ReasonParseError, "%d is not from 1 to 255; the policy is not in use", in.Repeat)
	}
	if in.Repeat != 0 {
		out.Repeat = uint8(in.Repeat)
	}
	return out, true
}
