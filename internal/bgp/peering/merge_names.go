package peering

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
)

// known holds the definitions of a part that an earlier part has too, by their indexes.
type known struct{ sets, policies, groups map[int]bool }

// renamed renames each definition in spec whose name an earlier part defines differently: it puts
// the name of the part before the name. It also renames the references in spec, so that they still
// mean the part's own definition.
func (m *Merged) renamed(part string, spec *bgpv1.BGPConfigurationSpec) known {
	var k known
	setNames := map[setKey]string{}
	k.sets = rename(part, m.Spec.DefinedSets, spec.DefinedSets, func(s *bgpv1.DefinedSet) *string { return &s.Name },
		func(a, b *bgpv1.DefinedSet) bool { return a.Type == b.Type },
		func(s *bgpv1.DefinedSet, was string) { setNames[setKey{SetKind(s.Type), was}] = s.Name })
	for i := range spec.PolicyDefinitions {
		for j := range spec.PolicyDefinitions[i].Statements {
			renameSets(&spec.PolicyDefinitions[i].Statements[j].Conditions, setNames)
		}
	}
	policyNames := map[string]string{}
	k.policies = rename(part, m.Spec.PolicyDefinitions, spec.PolicyDefinitions, func(p *bgpv1.PolicyDefinition) *string { return &p.Name }, nil,
		func(p *bgpv1.PolicyDefinition, was string) { policyNames[was] = p.Name })
	renamePolicies(spec.Global.ApplyPolicy, policyNames)
	for i := range spec.PeerGroups {
		renamePolicies(spec.PeerGroups[i].ApplyPolicy, policyNames)
	}
	groupNames := map[string]string{}
	k.groups = rename(part, m.Spec.PeerGroups, spec.PeerGroups, func(g *bgpv1.PeerGroup) *string { return &g.Config.PeerGroupName }, nil,
		func(g *bgpv1.PeerGroup, was string) { groupNames[was] = g.Config.PeerGroupName })
	for i := range spec.Neighbors {
		renamePolicies(spec.Neighbors[i].ApplyPolicy, policyNames)
		replace(&spec.Neighbors[i].Config.PeerGroup, groupNames)
	}
	for i := range spec.DynamicNeighbors {
		replace(&spec.DynamicNeighbors[i].PeerGroup, groupNames)
	}
	return k
}

// written returns the name of a peer group in its BGPConfiguration, without the prefix that renamed
// adds.
func (m *Merged) written(group string) string {
	for _, p := range m.Parts {
		if name, renamed := strings.CutPrefix(group, p.Name+"/"); renamed {
			return name
		}
	}
	return group
}

// rename renames the definitions in more whose names list defines differently, and calls report for
// each. It returns the indexes of the definitions that list defines in the same way. alike says
// whether two definitions share one name space; if it is nil, all definitions do.
func rename[T any](part string, list, more []T, name func(*T) *string, alike func(a, b *T) bool, report func(renamed *T, was string)) map[int]bool {
	same := map[int]bool{}
	for i := range more {
		own := name(&more[i])
		j := slices.IndexFunc(list, func(e T) bool { return *name(&e) == *own && (alike == nil || alike(&e, &more[i])) })
		switch {
		case j < 0 || *own == "":
		case reflect.DeepEqual(list[j], more[i]):
			same[i] = true
		default:
			was := *own
			*own = part + "/" + was
			report(&more[i], was)
		}
	}
	return same
}

// renameSets renames the references to sets.
func renameSets(c *bgpv1.Conditions, names map[setKey]string) {
	for kind, match := range map[SetKind]*bgpv1.MatchSet{
		PrefixSet: c.PrefixSet, NeighborSet: c.NeighborSet, ASPathSet: c.ASPathSet,
		CommunitySet: c.CommunitySet, LargeCommunitySet: c.LargeCommunitySet,
	} {
		if match == nil {
			continue
		}
		if name, there := names[setKey{kind, match.Name}]; there {
			match.Name = name
		}
	}
}

// renamePolicies renames the references to policies.
func renamePolicies(a *bgpv1.ApplyPolicy, names map[string]string) {
	if a == nil {
		return
	}
	for _, assigned := range []*bgpv1.PolicyAssignment{a.ImportPolicy, a.ExportPolicy} {
		if assigned == nil {
			continue
		}
		for i := range assigned.Policies {
			replace(&assigned.Policies[i], names)
		}
	}
}

// replace replaces a name that has a new one.
func replace(name *string, names map[string]string) {
	if renamed, there := names[*name]; there {
		*name = renamed
	}
}

// foreignSecrets puts the namespace and a slash before the names of the Secrets in spec. A name
// without a slash is that of a Secret in the install namespace.
func foreignSecrets(spec *bgpv1.BGPConfigurationSpec, namespace string) {
	name := func(r *bgpv1.SecretKeyRef) {
		if r != nil && r.Name != "" {
			r.Name = namespace + "/" + r.Name
		}
	}
	for i := range spec.Neighbors {
		name(spec.Neighbors[i].Config.AuthPasswordSecretRef)
	}
	for i := range spec.PeerGroups {
		name(spec.PeerGroups[i].Config.AuthPasswordSecretRef)
	}
}

// ForeignSecret returns an error if name, from a Merged, is that of a Secret outside of home.
func ForeignSecret(name, home string) error {
	if !strings.Contains(name, "/") {
		return nil
	}
	return fmt.Errorf("secret %s is not read, only those of %s are: move the BGPConfiguration and its Secret there", name, home)
}
