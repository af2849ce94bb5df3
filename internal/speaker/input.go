package speaker

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/peering"
)

// Input is what the cluster says of this node, in our words. It is what is
// remembered over restarts.
type Input struct {
	// Config is the configuration in effect, nil when there is none.
	Config *Config
	Node   NodeFacts
	// Dummy is the interface that carries remote addresses.
	Dummy      string
	Attributes Attributes
	// Own are the prefixes of the pools.
	Own []peering.PrefixRange
	// Passwords are the values of Secrets, by "name/key", and Missing says why
	// there is none. Outdated says why a value is the last one that was known.
	Passwords, Missing, Outdated map[string]string
	// Complaints are what is wrong with what groups and Services say of their
	// routes, by the name of the object and the field, and About are those
	// objects. They are not remembered.
	Complaints map[string]string                 `json:"-"`
	About      map[string]corev1.ObjectReference `json:"-"`
}

// Config is a BGPConfiguration.
type Config struct {
	Namespace, Name string
	UID             types.UID
	Generation      int64
	Spec            bgpv1.BGPConfigurationSpec
}

// defaultDummy is the interface that carries remote addresses where no
// LBNodeAgent says otherwise.
const defaultDummy = "kube-lb0"

// read returns what s says. What it does not say stays as it was: a node without
// an object is about to go, and an LBNodeAgent that cannot be used moves nothing.
func read(s Snapshot, namespace string, before Input, others ...string) Input {
	in := Input{Node: before.Node, Dummy: before.Dummy, Passwords: map[string]string{}, Missing: map[string]string{}, Outdated: map[string]string{}}
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
	in.Attributes = attributesOf(s, groups, in.complain)
	in.Own = prefixesOf(groups)
	if c := peering.InEffect(s.Configs); c != nil {
		in.Config = &Config{Namespace: c.Namespace, Name: c.Name, UID: c.UID, Generation: c.Generation, Spec: c.Spec}
		in.readSecrets(s, namespace, before)
	}
	return in
}

// readSecrets reads the passwords that the configuration names. One that cannot
// be read, or is gone, stays what it was.
func (in *Input) readSecrets(s Snapshot, namespace string, before Input) {
	for _, ref := range secretRefs(in.Config.Spec) {
		name := ref.Name + "/" + ref.Key
		secret := s.Secrets[ref.Name]
		value, err := secret.Value(namespace, ref.Name, ref.Key)
		last, was := before.Passwords[name]
		switch {
		case err == nil:
			in.Passwords[name] = value
		case was:
			// What replaces a Secret may delete it first. Without its key the
			// sessions would end on all nodes at once.
			in.Passwords[name] = last
			if secret.Known {
				in.Outdated[name] = err.Error()
			}
		default:
			in.Missing[name] = err.Error()
		}
	}
}

// secretRefs are the keys of Secrets that spec names.
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

// secretNames are the Secrets that spec names, sorted.
func secretNames(spec bgpv1.BGPConfigurationSpec) []string {
	var names []string
	for _, ref := range secretRefs(spec) {
		names = append(names, ref.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// secret answers for a reference.
func (in Input) secret(name, key string) (string, error) {
	if value, ok := in.Passwords[name+"/"+key]; ok {
		return value, nil
	}
	if why, ok := in.Missing[name+"/"+key]; ok {
		return "", fmt.Errorf("%s", why)
	}
	return "", fmt.Errorf("secret %s has no key %q", name, key)
}

// complain notes what is wrong with what an object says of its routes.
func (in *Input) complain(about corev1.ObjectReference, name string, problems []peering.Problem) {
	for _, p := range problems {
		key := about.Kind + " " + name + " " + p.Field
		in.Complaints[key], in.About[key] = p.String(), about
	}
}

// same says that o would be decided like in, and people told the same.
func (in Input) same(o Input) bool {
	if len(in.Complaints)+len(o.Complaints) == 0 {
		in.Complaints, in.About, o.Complaints, o.About = nil, nil, nil, nil // what is remembered has none
	}
	return reflect.DeepEqual(in, o)
}

// Attributes are what routes say of themselves, by their addresses.
type Attributes struct {
	// ByAddress is for addresses whose Services say something, with what their
	// groups say beside it.
	ByAddress map[netip.Addr]peering.Attributes
	// Ranges are those of the groups. They do not overlap, and are sorted.
	Ranges []RangeAttributes
}

// RangeAttributes is for the addresses From to To.
type RangeAttributes struct {
	From, To   netip.Addr
	Attributes peering.Attributes
}

// of returns what the route to ip says of itself. It is known from the range
// before anything is known of the Service: a route has not to be announced twice.
func (a Attributes) of(ip netip.Addr) peering.Attributes {
	if own, ok := a.ByAddress[ip]; ok {
		return own
	}
	i, found := slices.BinarySearchFunc(a.Ranges, ip, func(r RangeAttributes, ip netip.Addr) int { return r.From.Compare(ip) })
	if !found {
		i--
	}
	if i >= 0 && ip.Compare(a.Ranges[i].To) <= 0 {
		return a.Ranges[i].Attributes
	}
	return peering.Attributes{}
}

// attributesOf reads what groups and Services say of their routes, and complains of
// what is wrong with that.
func attributesOf(s Snapshot, groups config.Config, complain func(corev1.ObjectReference, string, []peering.Problem)) Attributes {
	a := Attributes{ByAddress: map[netip.Addr]peering.Attributes{}}
	for _, g := range groups.Groups.Usable {
		i := slices.IndexFunc(s.Groups, func(o v2.ServiceGroup) bool { return o.Namespace == g.Namespace && o.Name == g.Name })
		if i < 0 || s.Groups[i].Spec.BGP == nil {
			continue
		}
		of := s.Groups[i].Spec.BGP
		attributes, problems := peering.ParseAttributes(texts(of.Communities), texts(of.LargeCommunities), of.MED, of.LocalPreference)
		complain(groupRef(s.Groups[i]), g.Ref(), problems)
		for _, p := range g.Pools {
			a.Ranges = append(a.Ranges, RangeAttributes{p.Range.From, p.Range.To, attributes})
		}
	}
	slices.SortFunc(a.Ranges, func(a, b RangeAttributes) int { return a.From.Compare(b.From) })
	// Of Services that share an address, the first by name has the say.
	for _, svc := range slices.Backward(s.Services) {
		own, problems := peering.AttributesOf(svc.Annotations)
		complain(serviceRef(svc), svc.Name, problems)
		for _, ip := range svc.Addresses {
			delete(a.ByAddress, ip)
			a.ByAddress[ip] = peering.Merge(a.of(ip), own)
		}
	}
	return a
}

// prefixesOf are the routes that addresses of the groups' pools may have: the prefixes
// in each pool, and the wider ones that the pool's aggregation makes of its addresses.
func prefixesOf(groups config.Config) []peering.PrefixRange {
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
	slices.SortFunc(all, func(a, b peering.PrefixRange) int {
		return cmp.Or(a.Prefix.Compare(b.Prefix), cmp.Compare(a.Min, b.Min), cmp.Compare(a.Max, b.Max))
	})
	return slices.Compact(all)
}

// texts are the strings of a list of words.
func texts[T ~string](list []T) []string {
	var all []string
	for _, t := range list {
		all = append(all, string(t))
	}
	return all
}
