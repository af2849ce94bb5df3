package peering

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
)

// Aliases are names for communities and large communities.
type Aliases map[string]string

// aliasName matches the names that an alias may have. It matches no community, and no regular
// expression that matches communities.
var aliasName = regexp.MustCompile(`^[a-z][-a-z0-9]*$`)

// AliasesOf returns the aliases that spec defines, without the malformed ones.
func AliasesOf(spec bgpv1.BGPConfigurationSpec) Aliases {
	all := Aliases{}
	for name, value := range spec.CommunityAliases {
		if wrongAlias(name, string(value)) == "" {
			all[name] = strings.TrimSpace(string(value))
		}
	}
	return all
}

// wrongAlias says what is wrong with an alias, or returns "".
func wrongAlias(name, value string) string {
	_, taken := wellKnown[name]
	_, badCommunity := parseCommunity(value)
	_, badLarge := parseLarge(value)
	switch {
	case !aliasName.MatchString(name):
		return quote(name) + " cannot be a name: write lower-case letters, digits and '-'; it is not in use"
	case taken:
		return quote(name) + " is the name of a well-known community: write another; it is not in use"
	case badCommunity != nil && badLarge != nil, aliasName.MatchString(value):
		return quote(value) + " is neither a community nor a large community: write numbers such as 64512:100; it is not in use"
	}
	return ""
}

// aliasProblems reports malformed aliases.
func (r *reader) aliasProblems() {
	for _, name := range slices.Sorted(maps.Keys(r.spec.CommunityAliases)) {
		if wrong := wrongAlias(name, string(r.spec.CommunityAliases[name])); wrong != "" {
			r.note("spec.communityAliases."+name, ReasonParseError, "%s", wrong)
		}
	}
}

// community reads a community, or a name for one.
func (a Aliases) community(text string) (uint32, error) {
	return resolve(a, text, parseCommunity, "a community")
}

// large reads a large community, or a name for one, and returns its usual text.
func (a Aliases) large(text string) (string, error) {
	return resolve(a, text, parseLarge, "a large community")
}

// resolve reads a text, or the value of the alias that it names. kind describes what parse reads.
func resolve[T any](a Aliases, text string, parse func(string) (T, error), kind string) (T, error) {
	v, err := parse(text)
	name := strings.TrimSpace(text)
	if err == nil || !aliasName.MatchString(name) {
		return v, err
	}
	value, there := a[name]
	if !there {
		return v, fmt.Errorf("%s is neither %s nor a name in spec.communityAliases of a BGPConfiguration of this node: correct it, or define it there", quote(name), kind)
	}
	if v, err = parse(value); err != nil {
		return v, fmt.Errorf("%s stands for %s, which is not %s: write another name", quote(name), value, kind)
	}
	return v, nil
}
