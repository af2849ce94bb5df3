package speaker

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/peering"
)

// Input is what the cluster configures for this node, in our words. The speaker stores it in a file
// for the next process.
type Input struct {
	// Config is the configuration in effect, or nil if there is none.
	Config *Config
	Node   NodeFacts
	// Dummy is the interface that carries remote addresses.
	Dummy      string
	Attributes Attributes
	// Own holds the prefixes of the pools, and the addresses from IPAM systems.
	Own []peering.PrefixRange
	// Weights holds the weights that are announced, by address.
	Weights map[netip.Addr]uint32 `json:",omitempty"`
	// Ready is the number of ready endpoints on this node of each address that is to have a
	// weight. It is nil if that is not known.
	Ready map[netip.Addr]uint32 `json:"-"`
	// Passwords holds the values of Secrets, by "name/key". Missing says why a value is
	// absent. Outdated says why a value may be old.
	Passwords, Missing, Outdated map[string]string
	// Complaints says what is wrong with the route attributes of groups and Services, by the
	// name of the object and the field. About holds those objects. The speaker does not store
	// them.
	Complaints map[string]string                 `json:"-"`
	About      map[string]corev1.ObjectReference `json:"-"`
}

// defaultDummy is the interface of remote addresses if no LBNodeAgent names another.
const defaultDummy = "kube-lb0"

// read returns the Input that s asks for, with the configuration next. What s does not set keeps
// the value of before: a node without an object is about to leave, and an LBNodeAgent that cannot
// be used changes nothing.
func read(s Snapshot, namespace string, before Input, next *Config, others ...string) Input {
	in := Input{Node: before.Node, Dummy: before.Dummy, Weights: before.Weights, Passwords: map[string]string{}, Missing: map[string]string{}, Outdated: map[string]string{}}
	if s.Node != nil {
		in.Node = *s.Node
	}
	groups := config.For(s.Groups, s.Agents, namespace, others...)
	if agent, ok := groups.AgentFor(in.Node.Labels); ok {
		in.Dummy = agent.Dummy
	}
	if in.Dummy == "" {
		in.Dummy = defaultDummy
	}
	in.Complaints, in.About = map[string]string{}, map[string]corev1.ObjectReference{}
	in.Attributes = in.readAttributes(s, groups, next, boundsOf(before.Attributes, groups.Groups.Usable, s.Groups))
	in.Ready = readyEndpoints(s, in.Attributes)
	in.Own = prefixesOf(s, groups)
	if in.Config = next; in.Config != nil {
		in.readSecrets(s, namespace, before)
	}
	return in
}

// readSecrets reads the passwords that the configuration names. A password that cannot be
// read, or is gone, keeps its last value.
func (in *Input) readSecrets(s Snapshot, namespace string, before Input) {
	for _, ref := range secretRefs(in.Config.Spec) {
		name := ref.Name + "/" + ref.Key
		secret := s.Secrets[ref.Name]
		value, err := secret.Value(namespace, ref.Name, ref.Key)
		if foreign := peering.ForeignSecret(ref.Name, namespace); foreign != nil {
			err = foreign
		}
		last, was := before.Passwords[name]
		switch {
		case err == nil:
			in.Passwords[name] = value
		case was:
			// A tool that replaces a Secret may delete it first. Without the password the
			// sessions would end on all nodes at once.
			in.Passwords[name] = last
			if secret.Known || secret.Forbidden {
				in.Outdated[name] = err.Error()
			}
		default:
			in.Missing[name] = err.Error()
		}
	}
}

// secretRefs returns the keys of Secrets that spec names.
func secretRefs(spec bgpv1.BGPConfigurationSpec) []bgpv1.SecretKeyRef {
	var refs []bgpv1.SecretKeyRef
	add := func(ref *bgpv1.SecretKeyRef) {
		if ref != nil && ref.Name != "" {
			refs = append(refs, *ref)
		}
	}
	for _, n := range spec.Neighbors {
		add(n.Config.AuthPasswordSecretRef)
	}
	for _, g := range spec.PeerGroups {
		add(g.Config.AuthPasswordSecretRef)
	}
	return refs
}

// secretNames returns the names of the Secrets that spec names, sorted, without those of other
// namespaces.
func secretNames(spec bgpv1.BGPConfigurationSpec, namespace string) []string {
	var names []string
	for _, ref := range secretRefs(spec) {
		if peering.ForeignSecret(ref.Name, namespace) == nil {
			names = append(names, ref.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// secret returns the value of a Secret's key, or an error that says why there is none.
func (in Input) secret(name, key string) (string, error) {
	if value, ok := in.Passwords[name+"/"+key]; ok {
		return value, nil
	}
	if why, ok := in.Missing[name+"/"+key]; ok {
		return "", fmt.Errorf("%s", why)
	}
	return "", fmt.Errorf("secret %s has no key %q", name, key)
}

// complain records what is wrong with the route attributes of an object.
func (in *Input) complain(about corev1.ObjectReference, name string, problems []peering.Problem) {
	for _, p := range problems {
		key := about.Kind + " " + name + " " + p.Field
		in.Complaints[key], in.About[key] = p.String(), about
	}
}

// same reports whether o leads to the same decision and the same events as in.
func (in Input) same(o Input) bool {
	if len(in.Complaints)+len(o.Complaints) == 0 {
		in.Complaints, in.About, o.Complaints, o.About = nil, nil, nil, nil // a stored input has none
	}
	in.Ready, o.Ready = nil, nil // they take effect as weights
	return reflect.DeepEqual(in, o)
}

// Attributes holds the attributes of routes, by their addresses.
type Attributes struct {
	// ByAddress holds the attributes of addresses whose Services set attributes. Those of their
	// groups are merged into them.
	ByAddress map[netip.Addr]peering.Attributes
	// Ranges holds those of the groups. The ranges do not overlap, and are sorted.
	Ranges []RangeAttributes
	// Restricted says which neighbors get the routes of groups, sorted by group.
	Restricted []peering.Restriction `json:",omitempty"`
	// Managed holds the marks of the groups whose addresses an IPAM system manages, by the names
	// that Services have for these groups.
	Managed map[string]string `json:",omitempty"`
	// Bounds are the neighbors and the nodes that groups name. Lost are those Bounds that hold for
	// addresses that no usable group has any more, in the form of BGPNodeStatus. The field
	// Addresses of both has only such addresses.
	Bounds []bgpv1.GroupBounds `json:",omitempty"`
	Lost   []bgpv1.GroupBounds `json:",omitempty"`
	// Withheld says that addresses of no known group or Service must not be announced.
	Withheld bool `json:",omitempty"`
}

// RangeAttributes holds the attributes of the addresses From to To.
type RangeAttributes struct {
	From, To netip.Addr
	// Group is the name of the ServiceGroup.
	Group      string
	Attributes peering.Attributes
	// Weighed says that routes have the number of ready endpoints as their weight.
	Weighed bool `json:",omitempty"`
	// Elsewhere says that only other nodes announce the addresses.
	Elsewhere bool `json:",omitempty"`
}

// of returns the attributes of the route to ip. The range of ip sets them before the speaker
// has seen the Service, so that it need not announce the route twice.
func (a Attributes) of(ip netip.Addr) peering.Attributes {
	if own, ok := a.ByAddress[ip]; ok {
		return own
	}
	if r := a.around(ip); r != nil {
		return r.Attributes
	}
	return peering.Attributes{}
}

// around returns the range of ip, or nil.
func (a Attributes) around(ip netip.Addr) *RangeAttributes {
	i, found := slices.BinarySearchFunc(a.Ranges, ip, func(r RangeAttributes, ip netip.Addr) int { return r.From.Compare(ip) })
	if !found {
		i--
	}
	if i >= 0 && ip.Compare(a.Ranges[i].To) <= 0 {
		return &a.Ranges[i]
	}
	return nil
}

// readAttributes reads the route attributes of groups and Services, with the aliases of the
// configuration c, and records what is wrong with them. b has the bounds of earlier groups.
func (in *Input) readAttributes(s Snapshot, groups config.Config, c *Config, b bounds) Attributes {
	var aliases peering.Aliases
	if c != nil {
		aliases = peering.AliasesOf(c.Spec)
	}
	a := Attributes{ByAddress: map[netip.Addr]peering.Attributes{}}
	for _, g := range groups.Groups.Usable {
		i := slices.IndexFunc(s.Groups, func(o v2.ServiceGroup) bool { return o.Namespace == g.Namespace && o.Name == g.Name })
		if i < 0 || s.Groups[i].Spec.BGP == nil {
			continue
		}
		of := s.Groups[i].Spec.BGP
		attributes, problems := peering.ParseAttributes(aliases, texts(of.Communities), texts(of.LargeCommunities), of.MED, of.LocalPreference)
		if of.WeightByEndpoints {
			problems = append(problems, unweighable(g)...)
		}
		elsewhere, problem := announcedElsewhere(g, of.NodeSelector, in.Node.Labels)
		restriction, unknown := restrictionOf(s, g, of)
		if restriction != nil {
			a.Restricted, attributes.Marks = append(a.Restricted, *restriction), []string{restriction.Mark}
		}
		in.complain(groupRef(s.Groups[i]), g.Ref(), slices.Concat(problems, problem, unknown))
		for _, p := range g.Pools {
			weighed := of.WeightByEndpoints && p.Bits == p.Range.From.BitLen()
			a.Ranges = append(a.Ranges, RangeAttributes{p.Range.From, p.Range.To, g.Ref(), attributes, weighed, elsewhere})
		}
	}
	lost := b.ranges(a.Ranges, in.Node.Labels)
	a.Ranges = append(a.Ranges, lost...)
	slices.SortFunc(a.Ranges, func(a, b RangeAttributes) int { return a.From.Compare(b.From) })
	// If Services share an address, the first by name wins.
	for _, svc := range slices.Backward(s.Services) {
		if len(svc.Annotations) == 0 {
			continue
		}
		own, problems := peering.AttributesOf(aliases, svc.Annotations)
		in.complain(serviceRef(svc), svc.Name, problems)
		for _, ip := range svc.Addresses {
			delete(a.ByAddress, ip)
			a.ByAddress[ip] = peering.Merge(a.of(ip), own)
		}
	}
	a.markManaged(s, b)
	a.Restricted = append(a.Restricted, b.restrictions(a)...)
	a.record(b, lost)
	slices.SortFunc(a.Restricted, func(a, b peering.Restriction) int { return cmp.Compare(a.Group, b.Group) })
	return a
}

// prefixesOf returns the prefixes of the routes that addresses of the groups' pools may have:
// those in each pool, and the wider ones that the pool's aggregation makes of its addresses. A
// group whose addresses an IPAM system manages has no pool: its addresses come from Services.
func prefixesOf(s Snapshot, groups config.Config) []peering.PrefixRange {
	var all []peering.PrefixRange
	for _, g := range groups.Groups.Usable {
		for _, pool := range g.Pools {
			for _, p := range pool.Range.Prefixes() {
				all = append(all, peering.PrefixRange{Prefix: p, Min: uint8(p.Bits()), Max: uint8(p.Addr().BitLen())})
				if pool.Bits < p.Bits() {
					wide := netip.PrefixFrom(p.Addr(), pool.Bits).Masked()
					all = append(all, peering.PrefixRange{Prefix: wide, Min: uint8(pool.Bits), Max: uint8(pool.Bits)})
				}
			}
		}
	}
	pools := slices.Clone(all)
	for _, svc := range s.Services {
		for _, ip := range svc.Addresses {
			if one := netip.PrefixFrom(ip, ip.BitLen()); svc.Recorded && !peering.Covers(pools, one) {
				all = append(all, peering.Exactly(one))
			}
		}
	}
	slices.SortFunc(all, comparePrefixes)
	return slices.Compact(all)
}

func comparePrefixes(a, b peering.PrefixRange) int {
	return cmp.Or(a.Prefix.Compare(b.Prefix), cmp.Compare(a.Min, b.Min), cmp.Compare(a.Max, b.Max))
}

// texts converts a list to strings.
func texts[T ~string](list []T) []string {
	var all []string
	for _, t := range list {
		all = append(all, string(t))
	}
	return all
}
