package importer

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	purelbv2 "purelb.io/purelb/api/purelb/v2"
)

// peers makes the BGPConfiguration.
func (m *Source) peers(r *Result, namespace string) {
	if len(m.Peers) == 0 {
		return
	}
	c := bgpv1.BGPConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: bgpv1.GroupVersion.String(), Kind: "BGPConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: namespace},
	}
	global := &c.Spec.Global
	global.ASN = most(m.Peers)
	global.RouterID = m.Peers[0].Spec.RouterID
	for _, p := range m.Peers {
		if p.Spec.VRF != "" {
			m.remark(p.object, "is not translated: PureLB does not support vrf %s", p.Spec.VRF)
			continue
		}
		if p.Spec.RouterID != m.Peers[0].Spec.RouterID {
			m.remark(p.object, "has another routerID than %v: in PureLB a node has one, and it is left to the default", m.Peers[0])
			global.RouterID = ""
		}
		c.Spec.Neighbors = append(c.Spec.Neighbors, m.neighbors(r, p, global.ASN, namespace)...)
	}
	r.BGP = &c
}

// most returns the AS of the nodes that most routers expect.
func most(peers []BGPPeer) int64 {
	count := map[int64]int{}
	for _, p := range peers {
		count[p.Spec.MyASN]++
	}
	return slices.MaxFunc(slices.Sorted(maps.Keys(count)), func(a, b int64) int { return count[a] - count[b] })
}

// neighbors returns the neighbor for p, or one for each of its nodeSelectors if one selector cannot express
// them.
func (m *Source) neighbors(r *Result, p BGPPeer, asn int64, namespace string) []bgpv1.Neighbor {
	n := bgpv1.Neighbor{Config: bgpv1.NeighborConfig{NeighborAddress: p.Spec.PeerAddress, NeighborInterface: p.Spec.Interface, NeighborGateway: p.Spec.gateway}}
	n.Config.Description = p.Metadata.Name
	n.Config.PeerASN = bgpv1.PeerASN(p.Spec.PeerASN)
	switch p.Spec.DynamicASN {
	case "external":
		n.Config.PeerASN = bgpv1.AnyExternal
	case "internal":
		n.Config.PeerASN = bgpv1.Internal
	}
	if own := cmp.Or(p.Spec.LocalASN, p.Spec.MyASN); own != asn {
		n.Config.LocalASN = bgpv1.LocalASN(strconv.FormatInt(own, 10))
	}
	m.authenticate(r, p, &n, namespace)
	m.session(p, &n)
	all := spread(p.Spec.NodeSelectors, func(s *metav1.LabelSelector) bgpv1.Neighbor {
		n.NodeSelector = s
		return n
	})
	if len(all) > 1 {
		m.remark(p.object, "has several nodeSelectors, and is one neighbor for each: a node that several select uses the first")
	}
	return all
}

// authenticate sets the password of a neighbor. MetalLB's Secrets have it under the key "password".
func (m *Source) authenticate(r *Result, p BGPPeer, n *bgpv1.Neighbor, namespace string) {
	if n.Config.AuthPassword = p.Spec.Password; p.Spec.Password != "" {
		m.remark(p.object, "has its password in the object itself, and so has the neighbor below: move it to a Secret")
	}
	name := p.Spec.PasswordSecret.Name
	if name == "" {
		return
	}
	n.Config.AuthPasswordSecretRef = &bgpv1.SecretKeyRef{Name: name, Key: "password"}
	if from := cmp.Or(p.Spec.PasswordSecret.Namespace, p.Metadata.Namespace); from != namespace {
		r.Secrets = append(r.Secrets, from+"/"+name)
	}
}

// session sets the options of a session.
func (m *Source) session(p BGPPeer, n *bgpv1.Neighbor) {
	n.AFISAFIs = families(p)
	timers := bgpv1.TimersConfig{
		HoldTime: seconds(p.Spec.HoldTime), KeepaliveInterval: seconds(p.Spec.KeepaliveTime), ConnectRetry: seconds(p.Spec.ConnectTime),
	}
	if timers != (bgpv1.TimersConfig{}) {
		n.Timers = &bgpv1.Timers{Config: timers}
	}
	if p.Spec.SourceAddress != "" || p.Spec.PeerPort != 0 {
		n.Transport = &bgpv1.Transport{LocalAddress: p.Spec.SourceAddress, RemotePort: p.Spec.PeerPort}
	}
	if p.Spec.SourceAddress != "" && len(p.Spec.NodeSelectors) == 0 {
		m.remark(p.object, "has the sourceAddress %s for all nodes: nodes without it will not have the neighbor; transport.localAddress takes it from an annotation of the node too", p.Spec.SourceAddress)
	}
	if p.Spec.GracefulRestart {
		n.GracefulRestart = &bgpv1.GracefulRestart{Enabled: new(true)}
	}
	if p.Spec.EBGPMultiHop {
		n.EBGPMultihop = &bgpv1.EBGPMultihop{Enabled: new(true)}
	}
	if p.Spec.BFDProfile != "" {
		n.BFD = m.bfd(p)
	}
}

// families returns the address families of a session. In MetalLB it has the family of its own addresses,
// unless dualStackAddressFamily is set.
func families(p BGPPeer) []bgpv1.AFISAFI {
	v4, v6 := bgpv1.AFISAFI{Family: "ipv4-unicast"}, bgpv1.AFISAFI{Family: "ipv6-unicast"}
	a, err := netip.ParseAddr(p.Spec.PeerAddress)
	switch {
	case len(p.Spec.families) > 0:
		var all []bgpv1.AFISAFI
		for _, f := range p.Spec.families {
			all = append(all, bgpv1.AFISAFI{Family: f + "-unicast"})
		}
		return all
	case p.Spec.BothFamilies || err != nil: // or unnumbered
		return []bgpv1.AFISAFI{v4, v6}
	case a.Unmap().Is4():
		return []bgpv1.AFISAFI{v4}
	default:
		return []bgpv1.AFISAFI{v6}
	}
}

func seconds(d *metav1.Duration) int64 {
	if d == nil {
		return 0
	}
	return int64(d.Duration / time.Second)
}

// bfd translates the profile of p.
func (m *Source) bfd(p BGPPeer) *bgpv1.BFD {
	i := slices.IndexFunc(m.Profiles, func(f BFDProfile) bool { return f.Metadata.Name == p.Spec.BFDProfile })
	if i < 0 {
		m.remark(p.object, "names the bfdProfile %s, which is missing: BFD has its defaults", p.Spec.BFDProfile)
		return &bgpv1.BFD{Enabled: new(true)}
	}
	f := m.Profiles[i]
	if f.Spec.EchoMode {
		m.remark(f.object, "has echoMode, which PureLB does not support: the router must not want it")
	}
	b := &bgpv1.BFD{
		Enabled:                         new(true),
		MinReceiveIntervalMilliseconds:  m.interval(f, value(f.Spec.ReceiveInterval)),
		MinTransmitIntervalMilliseconds: m.interval(f, value(f.Spec.TransmitInterval)),
		DetectionMultiplier:             value(f.Spec.DetectMultiplier),
	}
	if f.Spec.PassiveMode {
		b.Passive = new(true)
	}
	if p.Spec.EBGPMultiHop { // MetalLB's minimumTtl has an effect only there
		b.MinimumTTL = value(f.Spec.MinimumTTL)
	}
	return b
}

// leastInterval is the shortest interval of BFD in PureLB, in milliseconds.
const leastInterval = 50

// interval returns an interval of f that PureLB has.
func (m *Source) interval(f BFDProfile, milliseconds int32) int32 {
	if milliseconds == 0 || milliseconds >= leastInterval {
		return milliseconds
	}
	m.remark(f.object, "has an interval of %d ms, and PureLB's shortest is %d ms", milliseconds, leastInterval)
	return leastInterval
}

func value[T any](of *T) (v T) {
	if of != nil {
		v = *of
	}
	return v
}

// mostAdvertisements is the number of advertisements that a group can have.
const mostAdvertisements = 16

// advertised translates the BGPAdvertisements of a pool.
func (m *Source) advertised(p IPAddressPool) *purelbv2.RouteAttributes {
	var all []purelbv2.Advertisement
	for _, a := range m.BGPAdvertisements {
		if !a.Spec.selects(p) {
			continue
		}
		for _, to := range m.advertisements(a) {
			if !slices.ContainsFunc(all, func(o purelbv2.Advertisement) bool { return reflect.DeepEqual(o, to) }) {
				all = append(all, to)
			}
		}
	}
	if len(all) > mostAdvertisements {
		m.remark(p.object, "has %d different BGPAdvertisements, and a group has %d at most: the others are left out", len(all), mostAdvertisements)
		all = all[:mostAdvertisements]
	}
	if len(all) == 1 && reflect.DeepEqual(all[0], purelbv2.Advertisement{}) {
		return nil // to all routers, without attributes, as by default
	}
	return &purelbv2.RouteAttributes{Advertisements: all}
}

// advertisements translates a BGPAdvertisement: to one entry, or to one for each of its nodeSelectors if one
// selector cannot express them.
func (m *Source) advertisements(a BGPAdvertisement) []purelbv2.Advertisement {
	var to purelbv2.Advertisement
	if a.Spec.LocalPref != nil && *a.Spec.LocalPref != 0 { // MetalLB takes 0 as the default
		to.LocalPreference = a.Spec.LocalPref
	}
	if bits := value(a.Spec.AggregationLength); bits != 0 && bits != 32 {
		to.Aggregation = purelbv2.AggregationV4(fmt.Sprintf("/%d", bits))
	}
	if bits := value(a.Spec.AggregationLengthV6); bits != 0 && bits != 128 {
		to.AggregationV6 = purelbv2.AggregationV6(fmt.Sprintf("/%d", bits))
	}
	for _, c := range a.Spec.Communities {
		c = m.community(c)
		if large, is := strings.CutPrefix(c, "large:"); is {
			to.LargeCommunities = append(to.LargeCommunities, purelbv2.LargeCommunity(large))
		} else {
			to.Communities = append(to.Communities, purelbv2.Community(c))
		}
	}
	for _, name := range a.Spec.Peers {
		peer := name // which no neighbor has, so that an advertisement to no peer does not become one to all
		switch i := slices.IndexFunc(m.Peers, func(p BGPPeer) bool { return p.Metadata.Name == name }); {
		case i < 0:
			m.remark(a.object, "names the peer %s, which is missing", name)
		case m.Peers[i].Spec.gateway != "":
			m.remark(a.object, "is for %s, a default gateway: give it a peerGroup, and name that", name)
		default:
			peer = m.Peers[i].Spec.PeerAddress + m.Peers[i].Spec.Interface
		}
		if !slices.Contains(to.Peers, purelbv2.Peer(peer)) { // peers of different nodes may have one address
			to.Peers = append(to.Peers, purelbv2.Peer(peer))
		}
	}
	if len(a.Spec.ServiceSelectors) > 0 {
		m.remark(a.object, "has serviceSelectors: give the Services a group of their own, or annotate them")
	}
	return spread(a.Spec.NodeSelectors, func(s *metav1.LabelSelector) purelbv2.Advertisement {
		to.NodeSelector = s
		return to
	})
}

// community returns the number of a community, which MetalLB may know by a name.
func (m *Source) community(text string) string {
	for _, c := range m.Communities {
		for _, alias := range c.Spec.Communities {
			if alias.Name == text {
				return alias.Value
			}
		}
	}
	return text
}
