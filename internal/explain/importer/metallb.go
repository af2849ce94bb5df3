package importer

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kjson "sigs.k8s.io/json"

	"purelb.io/purelb/internal/service"
)

// Source is the configuration of another load balancer in the objects of MetalLB 0.15 and 0.16. Earlier ones
// may announce both families by one session. Peers are those of the version v1beta2, the others those of
// v1beta1, as the API server returns them. What Cilium and kube-vip have is put into these objects.
type Source struct {
	Pools             []IPAddressPool
	L2Advertisements  []L2Advertisement
	BGPAdvertisements []BGPAdvertisement
	Peers             []BGPPeer
	Profiles          []BFDProfile
	Communities       []Community
	Services          []corev1.Service
	// Networks are the networks of the nodes, as far as they are known. MetalLB's pools have no subnet.
	Networks []netip.Prefix
	// remarks say what was not translated.
	remarks []string
	cilium  cilium
	kubeVIP kubeVIP
}

func (m *Source) remark(o object, format string, values ...any) {
	m.remarks = append(m.remarks, o.String()+" "+fmt.Sprintf(format, values...))
}

// object is what all objects have. Its metadata lacks what nothing here reads.
type object struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name      string            `json:"name"`
		Namespace string            `json:"namespace"`
		Labels    map[string]string `json:"labels"`
	} `json:"metadata"`
	Status any `json:"status"`
}

func (o object) String() string { return o.Kind + " " + o.Metadata.Name }

// IPAddressPool are addresses for Services.
type IPAddressPool struct {
	object `json:",inline"`
	Spec   struct {
		Addresses     []string    `json:"addresses"`
		AutoAssign    *bool       `json:"autoAssign"`
		AvoidBuggyIPs bool        `json:"avoidBuggyIPs"`
		AllocateTo    *allocateTo `json:"serviceAllocation"`
	} `json:"spec"`
}

// allocateTo says which Services a pool is for.
type allocateTo struct {
	Priority           int                    `json:"priority"`
	Namespaces         []string               `json:"namespaces"`
	NamespaceSelectors []metav1.LabelSelector `json:"namespaceSelectors"`
	ServiceSelectors   []metav1.LabelSelector `json:"serviceSelectors"`
}

// selected names pools. Without names and selectors it is all pools.
type selected struct {
	IPAddressPools         []string               `json:"ipAddressPools"`
	IPAddressPoolSelectors []metav1.LabelSelector `json:"ipAddressPoolSelectors"`
}

// selects reports whether s is for the pool.
func (s selected) selects(p IPAddressPool) bool {
	if len(s.IPAddressPools)+len(s.IPAddressPoolSelectors) == 0 || slices.Contains(s.IPAddressPools, p.Metadata.Name) {
		return true
	}
	return slices.ContainsFunc(s.IPAddressPoolSelectors, func(ls metav1.LabelSelector) bool {
		selector, err := metav1.LabelSelectorAsSelector(&ls)
		return err == nil && selector.Matches(labels.Set(p.Metadata.Labels))
	})
}

// L2Advertisement announces pools by ARP and NDP.
type L2Advertisement struct {
	object `json:",inline"`
	Spec   struct {
		selected         `json:",inline"`
		NodeSelectors    []metav1.LabelSelector `json:"nodeSelectors"`
		ServiceSelectors []metav1.LabelSelector `json:"serviceSelectors"`
		Interfaces       []string               `json:"interfaces"`
	} `json:"spec"`
}

// BGPAdvertisement announces pools by BGP.
type BGPAdvertisement struct {
	object `json:",inline"`
	Spec   struct {
		selected            `json:",inline"`
		AggregationLength   *int                   `json:"aggregationLength"`
		AggregationLengthV6 *int                   `json:"aggregationLengthV6"`
		LocalPref           *int64                 `json:"localPref"`
		Communities         []string               `json:"communities"`
		Peers               []string               `json:"peers"`
		NodeSelectors       []metav1.LabelSelector `json:"nodeSelectors"`
		ServiceSelectors    []metav1.LabelSelector `json:"serviceSelectors"`
	} `json:"spec"`
}

// BGPPeer is a router.
type BGPPeer struct {
	object `json:",inline"`
	Spec   struct {
		MyASN          int64            `json:"myASN"`
		PeerASN        int64            `json:"peerASN"`
		DynamicASN     string           `json:"dynamicASN"`
		LocalASN       int64            `json:"localASN"`
		PeerAddress    string           `json:"peerAddress"`
		Interface      string           `json:"interface"`
		PeerPort       int32            `json:"peerPort"`
		SourceAddress  string           `json:"sourceAddress"`
		HoldTime       *metav1.Duration `json:"holdTime"`
		KeepaliveTime  *metav1.Duration `json:"keepaliveTime"`
		ConnectTime    *metav1.Duration `json:"connectTime"`
		RouterID       string           `json:"routerID"`
		Password       string           `json:"password"`
		PasswordSecret struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"passwordSecret"`
		BFDProfile      string                 `json:"bfdProfile"`
		GracefulRestart bool                   `json:"enableGracefulRestart"`
		EBGPMultiHop    bool                   `json:"ebgpMultiHop"`
		VRF             string                 `json:"vrf"`
		NodeSelectors   []metav1.LabelSelector `json:"nodeSelectors"`
		DisableMP       bool                   `json:"disableMP"`
		BothFamilies    bool                   `json:"dualStackAddressFamily"`
		// gateway is the family of the default gateway that is the router, and families are those of the
		// session, if they are not those of MetalLB. config names the CiliumBGPPeerConfig.
		gateway, config string
		families        []string
	} `json:"spec"`
}

// BFDProfile are the timers of BFD with routers.
type BFDProfile struct {
	object `json:",inline"`
	Spec   struct {
		ReceiveInterval  *int32 `json:"receiveInterval"`
		TransmitInterval *int32 `json:"transmitInterval"`
		DetectMultiplier *int32 `json:"detectMultiplier"`
		EchoInterval     *int32 `json:"echoInterval"`
		EchoMode         bool   `json:"echoMode"`
		PassiveMode      bool   `json:"passiveMode"`
		MinimumTTL       *int32 `json:"minimumTtl"`
	} `json:"spec"`
}

// Community gives names to communities of BGP.
type Community struct {
	object `json:",inline"`
	Spec   struct {
		Communities []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"communities"`
	} `json:"spec"`
}

// Group is the API group of MetalLB's objects.
const Group = "metallb.io"

// Read adds a Service, or an object of another load balancer, in JSON. It skips other objects. An object of an
// older version that MetalLB no longer serves, and a malformed one, is an error. A field that is unknown here
// becomes a remark.
func (m *Source) Read(text []byte) error {
	var o object
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &o); err != nil {
		return err
	}
	group, version, _ := strings.Cut(o.APIVersion, "/")
	list, known := map[string]any{
		"Service":       &m.Services,
		"IPAddressPool": &m.Pools, "L2Advertisement": &m.L2Advertisements, "BGPAdvertisement": &m.BGPAdvertisements, "BGPPeer": &m.Peers,
		"BFDProfile": &m.Profiles, "Community": &m.Communities,
		"CiliumLoadBalancerIPPool": &m.cilium.pools, "CiliumL2AnnouncementPolicy": &m.cilium.policies, "CiliumBGPClusterConfig": &m.cilium.clusters,
		"CiliumBGPPeerConfig": &m.cilium.peers, "CiliumBGPAdvertisement": &m.cilium.advertisements,
	}[o.Kind]
	switch {
	case group != ciliumGroup && group != Group && o.Kind != "Service":
		return m.kubeVIP.read(text, o)
	case o.Kind == "BGPPeer" && version == "v1beta1":
		return fmt.Errorf("%v has the version v1beta1, which MetalLB converts to v1beta2: get it from the cluster", o)
	case o.Kind == "AddressPool":
		return fmt.Errorf("%v is of MetalLB 0.12: upgrade MetalLB first", o)
	case o.Kind == "CiliumBGPNodeConfigOverride" || o.Kind == "CiliumBGPPeeringPolicy":
		m.remark(o, "is not translated")
	case known:
		return m.read(text, o, reflect.ValueOf(list).Elem())
	}
	return nil // what these load balancers write themselves
}

// read appends the object in text to all.
func (m *Source) read(text []byte, o object, all reflect.Value) error {
	one := reflect.New(all.Type().Elem())
	unknown, err := kjson.UnmarshalStrict(text, one.Interface())
	if err != nil {
		return fmt.Errorf("%v: %w", o, err)
	}
	for _, u := range unknown {
		if field, is := strings.CutPrefix(u.Error(), `unknown field "spec.`); is {
			m.remark(o, "spec.%s is not translated", strings.TrimSuffix(field, `"`))
		}
	}
	all.Set(reflect.Append(all, one.Elem()))
	return nil
}

// Translate returns PureLB's configuration for m. Its objects are in namespace, which is PureLB's. product is
// the name of the other load balancer in readAnnotations.
func (m *Source) Translate(product, namespace string) Result {
	switch product {
	case "cilium":
		m.cilium.add(m)
	case "kube-vip":
		m.kubeVIP.add(m)
	}
	slices.SortFunc(m.Pools, func(a, b IPAddressPool) int { return cmp.Compare(a.Metadata.Name, b.Metadata.Name) })
	slices.SortFunc(m.Peers, func(a, b BGPPeer) int { return cmp.Compare(a.Metadata.Name, b.Metadata.Name) })
	var r Result
	m.peers(&r, namespace)
	m.groups(&r, namespace)
	m.agents(&r, namespace)
	m.services(&r, product)
	for _, lines := range [][]string{r.Services, r.Secrets, m.remarks} {
		slices.Sort(lines)
	}
	r.Secrets, r.Remarks = slices.Compact(r.Secrets), m.remarks
	return r
}

// services finds the annotations of PureLB for the Services that have those of the product.
func (m *Source) services(r *Result, product string) {
	for i := range m.Services {
		svc := &m.Services[i]
		if ours := service.Translate(svc, product); len(ours) > 0 {
			r.Services = append(r.Services, annotate(svc, ours))
		}
	}
}
