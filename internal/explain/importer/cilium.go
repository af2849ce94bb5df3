package importer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"purelb.io/purelb/internal/addr"
)

// ciliumGroup is the API group of Cilium's objects.
const ciliumGroup = "cilium.io"

func (o object) isCilium() bool { return strings.HasPrefix(o.APIVersion, ciliumGroup+"/") }

// cilium is the configuration of Cilium's LB-IPAM, L2 announcements and BGP, of the versions v2 and v2alpha1.
type cilium struct {
	pools          []ciliumPool
	policies       []ciliumPolicy
	clusters       []ciliumCluster
	peers          []ciliumPeer
	advertisements []ciliumAdvertisement
}

type ciliumPool struct {
	object `json:",inline"`
	Spec   struct {
		Blocks []struct {
			CIDR  string `json:"cidr"`
			Start string `json:"start"`
			Stop  string `json:"stop"`
		} `json:"blocks"`
		ServiceSelector   *metav1.LabelSelector `json:"serviceSelector"`
		AllowFirstLastIPs string                `json:"allowFirstLastIPs"`
		Disabled          bool                  `json:"disabled"`
	} `json:"spec"`
}

type ciliumPolicy struct {
	object `json:",inline"`
	Spec   struct {
		ServiceSelector *metav1.LabelSelector `json:"serviceSelector"`
		NodeSelector    *metav1.LabelSelector `json:"nodeSelector"`
		Interfaces      []string              `json:"interfaces"`
		LoadBalancerIPs bool                  `json:"loadBalancerIPs"`
		ExternalIPs     bool                  `json:"externalIPs"`
	} `json:"spec"`
}

type ciliumCluster struct {
	object `json:",inline"`
	Spec   struct {
		NodeSelector *metav1.LabelSelector `json:"nodeSelector"`
		Instances    []struct {
			Name     string `json:"name"`
			LocalASN int64  `json:"localASN"`
			Peers    []struct {
				Name          string `json:"name"`
				PeerAddress   string `json:"peerAddress"`
				PeerASN       int64  `json:"peerASN"`
				AutoDiscovery struct {
					Mode           string `json:"mode"`
					DefaultGateway struct {
						Family string `json:"addressFamily"`
					} `json:"defaultGateway"`
					Unnumbered struct {
						Interface string `json:"interface"`
					} `json:"unnumbered"`
				} `json:"autoDiscovery"`
				Config struct {
					Name string `json:"name"`
				} `json:"peerConfigRef"`
			} `json:"peers"`
		} `json:"bgpInstances"`
	} `json:"spec"`
}

type ciliumPeer struct {
	object `json:",inline"`
	Spec   struct {
		Transport struct {
			PeerPort int32 `json:"peerPort"`
		} `json:"transport"`
		Timers struct {
			ConnectRetry int64 `json:"connectRetryTimeSeconds"`
			HoldTime     int64 `json:"holdTimeSeconds"`
			KeepAlive    int64 `json:"keepAliveTimeSeconds"`
		} `json:"timers"`
		Secret          string `json:"authSecretRef"`
		GracefulRestart struct {
			Enabled bool `json:"enabled"`
		} `json:"gracefulRestart"`
		EBGPMultihop int32 `json:"ebgpMultihop"`
		Families     []struct {
			AFI            string                `json:"afi"`
			SAFI           string                `json:"safi"`
			Advertisements *metav1.LabelSelector `json:"advertisements"`
		} `json:"families"`
	} `json:"spec"`
}

type ciliumAdvertisement struct {
	object `json:",inline"`
	Spec   struct {
		Advertisements []struct {
			Type    string `json:"advertisementType"`
			Service struct {
				Addresses     []string `json:"addresses"`
				AggregationV4 *int     `json:"aggregationLengthIPv4"`
				AggregationV6 *int     `json:"aggregationLengthIPv6"`
			} `json:"service"`
			Selector   *metav1.LabelSelector `json:"selector"`
			Attributes struct {
				Communities struct {
					Standard  []string `json:"standard"`
					WellKnown []string `json:"wellKnown"`
					Large     []string `json:"large"`
				} `json:"communities"`
				LocalPreference *int64 `json:"localPreference"`
			} `json:"attributes"`
		} `json:"advertisements"`
	} `json:"spec"`
}

// add puts c into the objects of MetalLB in m.
func (c *cilium) add(m *Source) {
	for _, p := range c.pools {
		c.addPool(m, p)
	}
	for _, p := range c.policies {
		if p.Spec.ExternalIPs {
			m.remark(p.object, "has externalIPs: PureLB announces only addresses of its groups")
		}
		if p.Spec.LoadBalancerIPs {
			a := L2Advertisement{object: p.object}
			a.Spec.NodeSelectors, a.Spec.ServiceSelectors = listed(p.Spec.NodeSelector), listed(p.Spec.ServiceSelector)
			for _, expression := range p.Spec.Interfaces {
				a.Spec.Interfaces = append(a.Spec.Interfaces, whole(expression))
			}
			m.L2Advertisements = append(m.L2Advertisements, a)
		}
	}
	for _, cluster := range c.clusters {
		c.addPeers(m, cluster)
	}
	for _, a := range c.advertisements {
		c.addAdvertisements(m, a)
	}
}

// listed returns the selectors of MetalLB for s: none for all objects.
func listed(s *metav1.LabelSelector) []metav1.LabelSelector {
	if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return nil
	}
	return []metav1.LabelSelector{*s}
}

// whole returns an expression that matches whole names, as PureLB wants it, where expression matches a part.
func whole(expression string) string {
	from, begins := strings.CutPrefix(expression, "^")
	to, ends := strings.CutSuffix(from, "$")
	if !begins {
		to = ".*" + to
	}
	if !ends {
		to += ".*"
	}
	return to
}

// ciliumService begins the labels that Services have for the selectors of Cilium, and not in Kubernetes.
const ciliumService = "io.kubernetes.service."

func (c *cilium) addPool(m *Source, p ciliumPool) {
	pool := IPAddressPool{object: p.object}
	for _, b := range p.Spec.Blocks {
		text := b.CIDR
		switch {
		case text == "":
			text = b.Start + "-" + cmp.Or(b.Stop, b.Start)
		case p.Spec.AllowFirstLastIPs == "No":
			text = inner(text)
		}
		pool.Spec.Addresses = append(pool.Spec.Addresses, text)
	}
	if p.Spec.Disabled {
		m.remark(p.object, "is disabled: Services get addresses of its group only if they name it")
		pool.Spec.AutoAssign = new(false)
	}
	for _, s := range listed(p.Spec.ServiceSelector) {
		pool.Spec.AllocateTo = &allocateTo{}
		s.MatchLabels = maps.Clone(s.MatchLabels)
		if namespace := s.MatchLabels[ciliumService+"namespace"]; namespace != "" {
			pool.Spec.AllocateTo.Namespaces = []string{namespace}
			delete(s.MatchLabels, ciliumService+"namespace")
		}
		s.MatchExpressions = slices.DeleteFunc(slices.Clone(s.MatchExpressions), func(e metav1.LabelSelectorRequirement) bool {
			named := e.Key == ciliumService+"namespace" && e.Operator == metav1.LabelSelectorOpIn
			if named {
				pool.Spec.AllocateTo.Namespaces = append(pool.Spec.AllocateTo.Namespaces, e.Values...)
			}
			return named
		})
		keys := slices.Collect(maps.Keys(s.MatchLabels))
		for _, e := range s.MatchExpressions {
			keys = append(keys, e.Key)
		}
		if slices.ContainsFunc(keys, func(key string) bool { return strings.HasPrefix(key, ciliumService) }) {
			m.remark(p.object, "selects Services by labels that only Cilium knows: annotate these Services with purelb.io/service-group")
		}
		pool.Spec.AllocateTo.ServiceSelectors = listed(&s)
	}
	m.Pools = append(m.Pools, pool)
}

// inner returns the addresses of a network without the first and the last one.
func inner(network string) string {
	span, err := addr.ParseBlock(network)
	if err != nil || span.From == span.To || span.From.Next() == span.To {
		return network
	}
	return span.From.Next().String() + "-" + span.To.Prev().String()
}

func (c *cilium) addPeers(m *Source, cluster ciliumCluster) {
	for _, instance := range cluster.Spec.Instances {
		for _, peer := range instance.Peers {
			p := BGPPeer{object: cluster.object}
			p.Metadata.Name = cluster.Metadata.Name + "/" + instance.Name + "/" + peer.Name
			p.Spec.MyASN, p.Spec.PeerASN, p.Spec.PeerAddress = instance.LocalASN, peer.PeerASN, strings.TrimSpace(peer.PeerAddress)
			p.Spec.gateway, p.Spec.Interface = peer.AutoDiscovery.DefaultGateway.Family, peer.AutoDiscovery.Unnumbered.Interface
			if peer.PeerASN == 0 {
				m.remark(p.object, "takes any AS of the router, and the neighbor below any but its own")
				p.Spec.DynamicASN = "external"
			}
			p.Spec.NodeSelectors = listed(cluster.Spec.NodeSelector)
			p.Spec.config = peer.Config.Name
			c.configure(m, &p)
			m.Peers = append(m.Peers, p)
		}
	}
}

// configure sets in p what its CiliumBGPPeerConfig says.
func (c *cilium) configure(m *Source, p *BGPPeer) {
	p.Spec.BothFamilies = true
	i := slices.IndexFunc(c.peers, func(one ciliumPeer) bool { return one.Metadata.Name == p.Spec.config })
	if i < 0 {
		m.remark(p.object, "names no CiliumBGPPeerConfig that exists, so Cilium announces nothing to this router")
		return
	}
	s := c.peers[i].Spec
	p.Spec.PeerPort, p.Spec.GracefulRestart, p.Spec.EBGPMultiHop = s.Transport.PeerPort, s.GracefulRestart.Enabled, s.EBGPMultihop > 1
	p.Spec.HoldTime, p.Spec.KeepaliveTime, p.Spec.ConnectTime = duration(s.Timers.HoldTime), duration(s.Timers.KeepAlive), duration(s.Timers.ConnectRetry)
	if s.Secret != "" {
		p.Spec.PasswordSecret.Name, p.Spec.PasswordSecret.Namespace = s.Secret, "kube-system"
	}
	for _, f := range s.Families {
		if f.SAFI == "unicast" && (f.AFI == "ipv4" || f.AFI == "ipv6") {
			p.Spec.families = append(p.Spec.families, f.AFI)
		} else {
			m.remark(c.peers[i].object, "has the family %s %s, which PureLB does not have", f.AFI, f.SAFI)
		}
	}
}

func duration(seconds int64) *metav1.Duration {
	if seconds == 0 {
		return nil
	}
	return &metav1.Duration{Duration: time.Duration(seconds) * time.Second}
}

func (c *cilium) addAdvertisements(m *Source, from ciliumAdvertisement) {
	var peers []string
	for _, p := range m.Peers {
		if c.selects(p.Spec.config, from) {
			peers = append(peers, p.Metadata.Name)
		}
	}
	for _, one := range from.Spec.Advertisements {
		others := slices.DeleteFunc(slices.Clone(one.Service.Addresses), func(a string) bool { return a == "LoadBalancerIP" })
		if one.Type != "Service" || len(others) > 0 {
			m.remark(from.object, "announces %s, which PureLB does not", cmp.Or(strings.Join(others, ", "), one.Type))
		}
		if one.Type != "Service" || len(others) == len(one.Service.Addresses) || one.Selector == nil || len(peers) == 0 {
			continue
		}
		a := BGPAdvertisement{object: from.object}
		if len(peers) < len(m.Peers) {
			a.Spec.Peers = peers
		}
		a.Spec.ServiceSelectors = listed(one.Selector)
		if e := one.Selector.MatchExpressions; len(e) == 1 && len(one.Selector.MatchLabels) == 0 && e[0].Operator == metav1.LabelSelectorOpNotIn {
			a.Spec.ServiceSelectors = nil // the usual way to say all Services
		}
		a.Spec.AggregationLength, a.Spec.AggregationLengthV6 = one.Service.AggregationV4, one.Service.AggregationV6
		a.Spec.LocalPref = one.Attributes.LocalPreference
		for _, text := range slices.Concat(one.Attributes.Communities.Standard, one.Attributes.Communities.WellKnown) {
			if n, err := strconv.ParseUint(text, 10, 32); err == nil {
				text = fmt.Sprintf("%d:%d", n>>16, n&0xffff)
			}
			a.Spec.Communities = append(a.Spec.Communities, text)
		}
		for _, text := range one.Attributes.Communities.Large {
			a.Spec.Communities = append(a.Spec.Communities, "large:"+text)
		}
		m.BGPAdvertisements = append(m.BGPAdvertisements, a)
	}
}

// selects reports whether the CiliumBGPPeerConfig of that name has a family with the advertisement.
func (c *cilium) selects(config string, from ciliumAdvertisement) bool {
	for _, p := range c.peers {
		for _, f := range p.Spec.Families {
			selector, err := metav1.LabelSelectorAsSelector(f.Advertisements)
			if p.Metadata.Name == config && err == nil && selector.Matches(labels.Set(from.Metadata.Labels)) {
				return true
			}
		}
	}
	return false
}
