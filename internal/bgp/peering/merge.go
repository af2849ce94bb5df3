package peering

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
)

// Merged is the configuration of a node: BGPConfigurations merged into one.
type Merged struct {
	Spec bgpv1.BGPConfigurationSpec
	// Parts are the BGPConfigurations, in the order in which they are merged.
	Parts []Part `json:",omitempty"`
	// Elements has the origin of each element of the lists in Spec. Fields has the part that sets a
	// field, such as spec.global.routerID. The keys of both are paths.
	Elements map[string][]Element `json:",omitempty"`
	Fields   map[string]string    `json:",omitempty"`
	// Absent are the names of the parts that are left out.
	Absent []string `json:",omitempty"`
	// Conflicts are the settings that are not in effect because another part has a different value.
	Conflicts []Problem `json:",omitempty"`
}

// Part is one of the BGPConfigurations of a Merged.
type Part struct {
	// Name begins with the namespace and a slash if that is not the install namespace.
	Name       string
	UID        types.UID
	Generation int64
}

// Element is the place of a list's element: the name of the part, and the index in its list.
type Element struct {
	Part  string
	Index int
}

// MergeConfigurations merges BGPConfigurations. Lists are joined. In other fields the first
// configuration that sets a field decides. A name of a set, a policy or a peer group refers to the
// definition in the same configuration. If there is none, it refers to the definition in another
// one. A later configuration never overrides an earlier one, so a new configuration cannot break
// nodes that worked.
func MergeConfigurations(configs []*bgpv1.BGPConfiguration, home string) Merged {
	m := Merged{Elements: map[string][]Element{}, Fields: map[string]string{}}
	for _, c := range configs {
		name := Ref(c, home)
		m.Parts = append(m.Parts, Part{Name: name, UID: c.UID, Generation: c.Generation})
		spec := c.Spec.DeepCopy()
		if c.Namespace != home {
			foreignSecrets(spec, c.Namespace)
		}
		m.merge(name, spec)
	}
	m.Spec.NodeSelector = nil
	return m
}

// Several reports whether problems must name their part.
func (m *Merged) Several() bool { return len(m.Parts) > 1 }

// Generation is a number that changes whenever one of the parts changes.
func (m *Merged) Generation() int64 {
	var sum int64
	for _, p := range m.Parts {
		sum += p.Generation
	}
	return sum
}

// merge adds the spec of a part, which it may change.
func (m *Merged) merge(part string, spec *bgpv1.BGPConfigurationSpec) {
	m.expandAliases(spec)
	kept := m.renamed(part, spec)
	if len(m.Parts) > 1 && !m.fits(part, &spec.Global) {
		m.Absent = append(m.Absent, part)
		return
	}
	m.mergeAliases(part, spec)
	m.overlay(part, "spec.global", reflect.ValueOf(&m.Spec.Global).Elem(), reflect.ValueOf(&spec.Global).Elem())
	if rules := spec.NetlinkExport; rules != nil && m.Spec.NetlinkExport != nil {
		m.Spec.NetlinkExport.Rules = join(m, part, "spec.netlinkExport.rules", m.Spec.NetlinkExport.Rules, rules.Rules, nil)
		rules.Rules = nil
		m.overlay(part, "spec.netlinkExport", reflect.ValueOf(m.Spec.NetlinkExport).Elem(), reflect.ValueOf(rules).Elem())
		spec.NetlinkExport = nil
	} else if rules != nil {
		join(m, part, "spec.netlinkExport.rules", nil, rules.Rules, nil)
	}
	m.Spec.Neighbors = join(m, part, "spec.neighbors", m.Spec.Neighbors, spec.Neighbors, nil)
	m.Spec.PeerGroups = join(m, part, "spec.peerGroups", m.Spec.PeerGroups, spec.PeerGroups, kept.groups)
	m.Spec.DynamicNeighbors = join(m, part, "spec.dynamicNeighbors", m.Spec.DynamicNeighbors, spec.DynamicNeighbors, nil)
	m.Spec.VRFs = join(m, part, "spec.vrfs", m.Spec.VRFs, spec.VRFs, nil)
	m.Spec.DefinedSets = join(m, part, "spec.definedSets", m.Spec.DefinedSets, spec.DefinedSets, kept.sets)
	m.Spec.PolicyDefinitions = join(m, part, "spec.policyDefinitions", m.Spec.PolicyDefinitions, spec.PolicyDefinitions, kept.policies)
	m.overlayRest(part, spec)
}

// overlayRest merges the fields of spec that are neither lists nor global.
func (m *Merged) overlayRest(part string, spec *bgpv1.BGPConfigurationSpec) {
	spec.Global = bgpv1.Global{}
	spec.Neighbors, spec.PeerGroups, spec.DynamicNeighbors, spec.VRFs = nil, nil, nil, nil
	spec.DefinedSets, spec.PolicyDefinitions, spec.NodeSelector = nil, nil, nil
	m.overlay(part, "spec", reflect.ValueOf(&m.Spec).Elem(), reflect.ValueOf(spec).Elem())
}

// join appends the elements of a part, except those in known: the list has them already.
func join[T any](m *Merged, part, path string, list, more []T, known map[int]bool) []T {
	for i, e := range more {
		if !known[i] {
			list = append(list, e)
			m.Elements[path] = append(m.Elements[path], Element{part, i})
		}
	}
	return list
}

// overlay sets the zero fields of into to the values in from. If both have different values, the
// value of into stays, and there is a conflict.
func (m *Merged) overlay(part, path string, into, from reflect.Value) {
	for i := range into.NumField() {
		was, is := into.Field(i), from.Field(i)
		field := path + "." + jsonName(into.Type().Field(i))
		switch {
		case is.IsZero():
		case was.IsZero():
			was.Set(is)
			m.Fields[field] = part
		case !reflect.DeepEqual(was.Interface(), is.Interface()):
			m.conflict(part, field, "is not in effect, because "+m.owner(field)+" says otherwise and is older: write the same, or remove it")
		}
	}
}

// fits reports whether a further part can be merged: its sessions must be of the same AS, and its
// policies for all neighbors must be the same.
func (m *Merged) fits(part string, in *bgpv1.Global) bool {
	const otherwise = " says otherwise and is older, so nothing of this BGPConfiguration is in effect on nodes that both select: "
	ok := true
	if in.ASN != m.Spec.Global.ASN {
		ok = m.conflict(part, "spec.global.asn", m.owner("spec.global.asn")+otherwise+"write the same, or let them select different nodes")
	}
	if in.Confederation != nil && !reflect.DeepEqual(in.Confederation, m.Spec.Global.Confederation) {
		ok = m.conflict(part, "spec.global.confederation", m.owner("spec.global.confederation")+otherwise+"write the same, or remove it")
	}
	if in.ApplyPolicy != nil && !reflect.DeepEqual(in.ApplyPolicy, m.Spec.Global.ApplyPolicy) {
		ok = m.conflict(part, "spec.global.applyPolicy",
			m.owner("spec.global.applyPolicy")+otherwise+"write the same, or name the policies at the neighbors or in a peer group")
	}
	return ok
}

// conflict records a field of a part that is not in effect, and returns false.
func (m *Merged) conflict(part, field, message string) bool {
	m.Conflicts = append(m.Conflicts, Problem{Field: part + ": " + field, Reason: ReasonConflict, Message: message})
	return false
}

// owner returns the name of the part that sets a field, or a field that contains it. If no part
// does, owner returns the first part.
func (m *Merged) owner(field string) string {
	for path := field; path != ""; {
		if part, there := m.Fields[path]; there {
			return part
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			break
		}
		path = path[:i]
	}
	return m.Parts[0].Name
}

// at returns the path of an element of a list in Spec.
func (m *Merged) at(list string, i int) string {
	if m.Several() && i < len(m.Elements[list]) {
		from := m.Elements[list][i]
		return from.Part + ": " + at(list, from.Index)
	}
	return at(list, i)
}

// origin returns the path of a field in Spec with the part that sets it. Paths of elements of
// lists have their part already.
func (m *Merged) origin(field string) string {
	if m == nil || !m.Several() || !strings.HasPrefix(field, "spec.") {
		return field
	}
	return m.owner(field) + ": " + field
}

// jsonName returns the name of a field in JSON.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// of returns the problems of one part, without the name of the part in their paths.
func of(problems []Problem, part string, several bool) []Problem {
	if !several {
		return problems
	}
	var all []Problem
	for _, p := range problems {
		if field, ok := strings.CutPrefix(p.Field, part+": "); ok {
			p.Field = field
			all = append(all, p)
		}
	}
	return slices.Clip(all)
}
