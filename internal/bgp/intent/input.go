package intent

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/groups"
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
	// Ready is the number of ready endpoints on this node, for each address with a weight.
	// It is nil if the endpoints are not known.
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

// Read translates s into an Input. A value that s does not set comes from before: a node without
// an object is about to leave, and an unusable LBNodeAgent changes nothing.
func Read(s Snapshot, namespace string, before Input, others ...string) Input {
	in := Input{Config: ConfigOf(s.Configs, s.NodeLabels(before.Node.Labels)), Node: before.Node, Dummy: before.Dummy, Weights: before.Weights, Passwords: map[string]string{}, Missing: map[string]string{}, Outdated: map[string]string{}}
	if s.Node != nil {
		in.Node = *s.Node
	}
	read := config.For(s.Groups, s.Agents, namespace, others...)
	if agent, ok := read.AgentFor(in.Node.Labels); ok {
		in.Dummy = agent.Dummy
	}
	if in.Dummy == "" {
		in.Dummy = defaultDummy
	}
	in.Complaints, in.About = map[string]string{}, map[string]corev1.ObjectReference{}
	in.Attributes = in.readAttributes(s, read, scope{namespace, others})
	in.Ready = readyEndpoints(s, in.Attributes)
	in.Own = prefixesOf(s, read)
	if in.Config != nil {
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

// SecretNames returns the names of the Secrets that spec names, sorted.
func SecretNames(spec bgpv1.BGPConfigurationSpec) []string {
	var names []string
	for _, ref := range secretRefs(spec) {
		names = append(names, ref.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Secret returns the value of a Secret's key, or an error that says why there is none.
func (in Input) Secret(name, key string) (string, error) {
	if value, ok := in.Passwords[name+"/"+key]; ok {
		return value, nil
	}
	if why, ok := in.Missing[name+"/"+key]; ok {
		return "", fmt.Errorf("%s", why)
	}
	return "", fmt.Errorf("secret %s has no key %q", name, key)
}

// complain records what is wrong with the route attributes of an object. Nothing is wrong for a node
// without a configuration, because it announces nothing.
func (in *Input) complain(about corev1.ObjectReference, name string, problems []peering.Problem) {
	if in.Config == nil {
		return
	}
	for _, p := range problems {
		key := about.Kind + " " + name + " " + p.Field
		in.Complaints[key], in.About[key] = p.String(), about
	}
}

// Same reports whether o leads to the same decision and the same events as in.
func (in Input) Same(o Input) bool {
	if len(in.Complaints)+len(o.Complaints) == 0 {
		in.Complaints, in.About, o.Complaints, o.About = nil, nil, nil, nil // a stored input has none
	}
	in.Ready, o.Ready = nil, nil // they take effect as weights
	return reflect.DeepEqual(in, o)
}

// prefixesOf returns the prefixes of the routes that the groups' pools may cause: the prefixes in
// each pool, and the wider prefixes that result from an aggregation. A group whose
// addresses an IPAM system manages has no pool. Its addresses come from Services.
func prefixesOf(s Snapshot, read config.Config) []peering.PrefixRange {
	var all []peering.PrefixRange
	for _, g := range read.Groups.Usable {
		for _, pool := range g.Pools {
			for _, p := range pool.Range.Prefixes() {
				all = append(all, peering.PrefixRange{Prefix: p, Min: uint8(p.Bits()), Max: uint8(p.Addr().BitLen())})
				for _, bits := range lengths(s, g, pool) {
					if bits < p.Bits() {
						all = append(all, peering.Exactly(netip.PrefixFrom(p.Addr(), bits).Masked()))
					}
				}
			}
		}
	}
	pools := peering.CoverageOf(all)
	for _, svc := range s.Services {
		for _, ip := range svc.Addresses {
			if one := netip.PrefixFrom(ip, ip.BitLen()); svc.Recorded && !pools.Has(one) {
				all = append(all, peering.Exactly(one))
			}
		}
	}
	slices.SortFunc(all, peering.PrefixRange.Compare)
	return slices.Compact(all)
}

// lengths returns the lengths of the routes of a pool, on any node.
func lengths(s Snapshot, g groups.Group, pool groups.Pool) []int {
	all := []int{pool.Bits}
	if of := s.group(g); of != nil && of.Spec.BGP != nil {
		for _, one := range of.Spec.BGP.Advertisements {
			all = append(all, bitsOf(one, pool))
		}
	}
	return all
}

// texts converts a list to strings.
func texts[T ~string](list []T) []string {
	var all []string
	for _, t := range list {
		all = append(all, string(t))
	}
	return all
}

// groupRef returns the reference to a group for an event.
func groupRef(g v2.ServiceGroup) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: v2.GroupVersion.String(), Kind: "ServiceGroup", Namespace: g.Namespace, Name: g.Name, UID: g.UID,
	}
}

// serviceRef returns the reference to a Service for an event.
func serviceRef(s ServiceFacts) corev1.ObjectReference {
	namespace, name, _ := strings.Cut(s.Name, "/")
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: namespace, Name: name, UID: s.UID}
}
