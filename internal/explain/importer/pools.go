package importer

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	purelbv2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
)

// topPriority is the highest priority of a ServiceGroup.
const topPriority = 1_000_000

// groups makes a ServiceGroup of the same name for each pool.
func (m *Source) groups(r *Result, namespace string) {
	ordered := len(m.Pools) > 1
	for rank, p := range m.Pools {
		g := purelbv2.ServiceGroup{
			TypeMeta:   metav1.TypeMeta{APIVersion: purelbv2.GroupVersion.String(), Kind: "ServiceGroup"},
			ObjectMeta: metav1.ObjectMeta{Name: p.Metadata.Name, Namespace: namespace},
		}
		pools, err := m.ranges(p)
		if err != nil {
			m.remark(p.object, "is not translated: %v", err)
			continue
		}
		switch l2, bgp := m.announced(p); {
		case bgp && l2:
			m.remark(p.object, "is announced by layer 2 and by BGP. Its group is local: make it remote if no node is in its subnet")
			g.Spec.Local = &purelbv2.LocalSpec{Pools: pools}
		case bgp:
			aggregate(pools)
			g.Spec.Remote = &purelbv2.RemoteSpec{Pools: pools, Withdrawal: purelbv2.Withdrawal{WithdrawWithoutEndpoints: !p.isCilium()}}
			g.Spec.BGP = m.advertised(p)
		case l2:
			g.Spec.Local = &purelbv2.LocalSpec{Pools: pools}
		default:
			m.remark(p.object, "is not announced now, for lack of an advertisement. PureLB will announce its group")
			g.Spec.Local = &purelbv2.LocalSpec{Pools: pools}
		}
		m.boundary(p, &g.Spec.Boundary)
		if ordered {
			g.Spec.Priority = priority(p, rank)
		}
		r.Groups = append(r.Groups, g)
	}
}

// priority orders the groups as MetalLB orders pools: first those with a serviceAllocation, by its priority,
// of which 1 comes first and 0 last, and then the others. Beside that it is by name, of which rank is the
// place.
func priority(p IPAddressPool, rank int) *int32 {
	of := topPriority/3 - rank
	switch a := p.Spec.AllocateTo; {
	case a == nil:
	case a.Priority > 0:
		of = max(topPriority-a.Priority, topPriority*2/3+1)
	default:
		of = topPriority*2/3 - rank
	}
	return new(int32(max(of, 0))) //nolint:gosec // not above topPriority
}

// announced reports how MetalLB announces a pool.
func (m *Source) announced(p IPAddressPool) (l2, bgp bool) {
	return slices.ContainsFunc(m.L2Advertisements, func(a L2Advertisement) bool { return a.Spec.selects(p) }),
		slices.ContainsFunc(m.BGPAdvertisements, func(a BGPAdvertisement) bool { return a.Spec.selects(p) })
}

// boundary says for which Services a group is. In MetalLB, a pool without serviceAllocation is for all
// Services.
func (m *Source) boundary(p IPAddressPool, b *purelbv2.Boundary) {
	b.AutoAssign = p.Spec.AutoAssign
	to := p.Spec.AllocateTo
	if to == nil || len(to.Namespaces)+len(to.NamespaceSelectors)+len(to.ServiceSelectors) == 0 {
		if b.AutoAssign == nil || *b.AutoAssign {
			b.NamespaceSelector = &metav1.LabelSelector{}
		}
		return
	}
	for _, name := range to.Namespaces {
		b.Namespaces = append(b.Namespaces, purelbv2.Namespace(name))
	}
	var ok bool
	if b.NamespaceSelector, ok = either(to.NamespaceSelectors); !ok {
		m.remark(p.object, "has namespaceSelectors that one selector cannot express: name the namespaces in its group")
	}
	if b.ServiceSelector, ok = either(to.ServiceSelectors); !ok {
		m.remark(p.object, "has serviceSelectors that one selector cannot express: annotate the Services with purelb.io/service-group")
	}
	m.remark(p.object, "is only for some Services. In PureLB others can still name its group; enforceNamespaces forbids that")
}

// ranges returns the ranges of a pool. They are written as first and last address, so that PureLB hands
// out the first and the last address of a network as MetalLB does.
func (m *Source) ranges(p IPAddressPool) (purelbv2.Pools, error) {
	var pools purelbv2.Pools
	for _, text := range p.Spec.Addresses {
		span, err := addr.ParseBlock(text)
		if err != nil {
			return pools, err
		}
		subnet := around(span)
		i := slices.IndexFunc(m.Networks, func(n netip.Prefix) bool { return n.Contains(span.From) && n.Contains(span.To) })
		if i >= 0 {
			subnet = m.Networks[i].Masked()
		} else if l2, _ := m.announced(p); l2 {
			m.remark(p.object, "%s: the subnet of these addresses is not known, and %v is a guess: write that of the nodes", text, subnet)
		}
		of := purelbv2.AddressPool{Pool: purelbv2.Range(span.String()), Subnet: purelbv2.Subnet(subnet.String())}
		if p.Spec.AvoidBuggyIPs && span.Family() == addr.V4 {
			of.Exclude = buggy(span)
			if len(of.Exclude) > mostExcluded {
				of.Exclude = nil
				m.remark(p.object, "%s: avoidBuggyIPs is not translated, because the range has too many addresses that end in 0 or 255", text)
			}
		}
		if span.Family() == addr.V4 {
			pools.V4Pools = append(pools.V4Pools, of)
		} else {
			pools.V6Pools = append(pools.V6Pools, of)
		}
	}
	return pools, nil
}

// around returns the smallest network that has all addresses of a range.
func around(span addr.Range) netip.Prefix {
	for bits := span.From.BitLen(); ; bits-- {
		if n := netip.PrefixFrom(span.From, bits).Masked(); n.Contains(span.To) {
			return n
		}
	}
}

// mostExcluded is the number of exclusions that a range can have.
const mostExcluded = 64

// buggy returns the addresses of a range of IPv4 that end in 0 or 255. It stops when they are too many.
func buggy(span addr.Range) []purelbv2.Exclusion {
	var all []purelbv2.Exclusion
	for a := span.From; a.IsValid() && !span.To.Less(a) && len(all) <= mostExcluded; a = a.Next() {
		last := a.As4()
		switch last[3] {
		case 0, 255:
			all = append(all, purelbv2.Exclusion(a.String()))
		default: // on to the one before the next candidate
			last[3] = 254
			a = netip.AddrFrom4(last)
		}
	}
	return all
}

// aggregate gives each address a route of its own, as MetalLB does by default.
func aggregate(pools purelbv2.Pools) {
	for i := range pools.V4Pools {
		pools.V4Pools[i].Aggregation = "/32"
	}
	for i := range pools.V6Pools {
		pools.V6Pools[i].Aggregation = "/128"
	}
}

// agents makes the LBNodeAgent, if addresses are announced by layer 2. Others choose interfaces and nodes for each
// pool or Service, and PureLB for each node.
func (m *Source) agents(r *Result, namespace string) {
	var names []string
	every := false
	for _, a := range m.L2Advertisements {
		if len(a.Spec.NodeSelectors) > 0 {
			m.remark(a.object, "has nodeSelectors: PureLB announces on each node of the subnet. Label the others node.kubernetes.io/exclude-from-external-load-balancers")
		}
		if len(a.Spec.ServiceSelectors) > 0 {
			m.remark(a.object, "has serviceSelectors: give the Services a group of their own")
		}
		if !slices.Equal(a.Spec.Interfaces, m.L2Advertisements[0].Spec.Interfaces) {
			m.remark(a.object, "has other interfaces than %v: the LBNodeAgent has those of both", m.L2Advertisements[0])
		}
		for _, name := range a.Spec.Interfaces {
			if !a.isCilium() { // Cilium has expressions
				name = regexp.QuoteMeta(name)
			}
			names = append(names, name)
		}
		every = every || len(a.Spec.Interfaces) == 0
	}
	if len(m.L2Advertisements) == 0 {
		return
	}
	slices.Sort(names)
	carries := strings.Join(slices.Compact(names), "|")
	if every { // MetalLB announces on all interfaces if none is named
		carries = "all"
	}
	r.Agents = append(r.Agents, purelbv2.LBNodeAgent{
		TypeMeta:   metav1.TypeMeta{APIVersion: purelbv2.GroupVersion.String(), Kind: "LBNodeAgent"},
		ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: namespace},
		Spec:       purelbv2.LBNodeAgentSpec{Local: &purelbv2.InterfaceSpec{LocalInterface: carries}},
	})
}
