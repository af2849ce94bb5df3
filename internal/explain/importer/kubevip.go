package importer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubeVIP is what kube-vip and its cloud provider are told.
type kubeVIP struct {
	// pools is the ConfigMap kubevip of the cloud provider.
	pools map[string]string
	// environment is that of kube-vip. elsewhere are the variables whose values stand in another object.
	environment map[string]string
	elsewhere   []string
}

// read reads the ConfigMap, and a pod or a workload of kube-vip.
func (k *kubeVIP) read(text []byte, o object) error {
	var found struct {
		Data map[string]string
		Spec struct {
			corev1.PodSpec
			Template corev1.PodTemplateSpec
		}
	}
	switch o.Kind {
	case "ConfigMap":
		if o.Metadata.Name == "kubevip" {
			err := json.Unmarshal(text, &found)
			k.pools = found.Data
			return err
		}
	case "Pod", "DaemonSet":
		if err := json.Unmarshal(text, &found); err != nil {
			return err
		}
		for _, c := range slices.Concat(found.Spec.Containers, found.Spec.Template.Spec.Containers) {
			environment := map[string]string{}
			for _, e := range c.Env {
				environment[e.Name] = e.Value
				if e.ValueFrom != nil && e.ValueFrom.FieldRef == nil {
					k.elsewhere = append(k.elsewhere, e.Name)
				}
			}
			if environment["svc_enable"] == "true" {
				k.environment = environment
			}
		}
	}
	return nil
}

// ofKubeVIP names a part of the configuration of kube-vip in remarks.
func ofKubeVIP(name string) object {
	o := object{TypeMeta: metav1.TypeMeta{Kind: "kube-vip"}}
	o.Metadata.Name = name
	return o
}

// untold are the variables that have no counterpart, and what to do about them.
var untold = map[string]string{
	"bgp_routerid":        "is left to the default, which is an address of the node",
	"bgp_routerinterface": "is left to the default, which is an address of the node",
	"bgp_sourceif":        "is not translated: transport.localAddress of a neighbor takes an address from an annotation of the node",
	"mpbgp_nexthop":       "is not translated: add the other family to afiSafis of the neighbors",
	"cp_enable":           "is for the address of the API server, which PureLB does not have: keep kube-vip for that, with svc_enable=false",
	"lb_class_only":       "gives kube-vip only Services of its class, which nobody can change: make those again",
	"vip_routingtable":    "is not translated",
	"vip_wireguard":       "is not translated",
	"zebra_enable":        "is not translated",
}

// add puts k into the objects of MetalLB in m.
func (k *kubeVIP) add(m *Source) {
	for _, key := range slices.Sorted(maps.Keys(k.pools)) {
		k.addPool(m, key)
	}
	env := k.environment
	for _, name := range k.elsewhere {
		m.remark(ofKubeVIP(name), "has its value in another object, such as a Secret, which is not read: complete what depends on it")
	}
	for name, why := range untold {
		if v := env[name]; v != "" && v != "false" {
			m.remark(ofKubeVIP(name), "%s", why)
		}
	}
	if len(env) == 0 && len(k.pools) > 0 {
		m.remark(ofKubeVIP("environment"), "was not found: no pod in kube-system has svc_enable=true")
	}
	if env["vip_arp"] == "true" {
		a := L2Advertisement{object: ofKubeVIP("vip_arp")}
		if name := cmp.Or(env["vip_servicesinterface"], env["vip_interface"]); name != "" {
			a.Spec.Interfaces = []string{name}
		}
		m.L2Advertisements = append(m.L2Advertisements, a)
	}
	if env["bgp_enable"] == "true" {
		m.BGPAdvertisements = append(m.BGPAdvertisements, BGPAdvertisement{object: ofKubeVIP("bgp_enable")})
		k.addPeers(m)
	}
}

// addPool makes a pool of cidr-NAMESPACE or range-NAMESPACE. The namespace global is all.
func (k *kubeVIP) addPool(m *Source, key string) {
	form, scope, _ := strings.Cut(key, "-")
	switch {
	case form == "range" && k.pools["cidr-"+scope] != "":
		m.remark(ofKubeVIP(key), "has no effect beside cidr-%s", scope)
		return
	case key == "skip-end-ips-in-cidr":
		return
	case form == "allow":
		m.remark(ofKubeVIP(key), "is not translated: Services share an address by the annotation purelb.io/allow-shared-ip")
		return
	case form != "cidr" && form != "range":
		m.remark(ofKubeVIP(key), "is not translated")
		return
	}
	p := IPAddressPool{object: ofKubeVIP("kube-vip-" + scope)}
	for text := range strings.SplitSeq(k.pools[key], ",") {
		switch text = strings.TrimSpace(text); {
		case strings.HasPrefix(text, "0.0.0.0"):
			m.remark(ofKubeVIP(key), "asks for addresses of a DHCP server, and PureLB has no DHCP")
		case form == "cidr" && k.pools["skip-end-ips-in-cidr"] == "true":
			p.Spec.Addresses = append(p.Spec.Addresses, inner(text))
		case text != "":
			p.Spec.Addresses = append(p.Spec.Addresses, text)
		}
	}
	if scope != "global" {
		p.Spec.AllocateTo = &allocateTo{Namespaces: []string{scope}}
	}
	if len(p.Spec.Addresses) > 0 {
		m.Pools = append(m.Pools, p)
	}
}

// addPeers makes the routers of bgp_peers, or the one of the older variables.
func (k *kubeVIP) addPeers(m *Source) {
	env := k.environment
	peers := env["bgp_peers"]
	if peers == "" && env["bgp_peeraddress"] != "" {
		address := env["bgp_peeraddress"]
		if strings.Contains(address, ":") {
			address = "[" + address + "]"
		}
		peers = strings.Join([]string{address, cmp.Or(env["bgp_peeras"], "65000"), env["bgp_peerpass"], env["bgp_multihop"]}, ":")
	}
	for text := range strings.SplitSeq(peers, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		if err := k.addPeer(m, text); err != nil {
			m.remark(ofKubeVIP("bgp_peers"), "is not translated: %v", err)
		}
	}
}

// addPeer makes a router of ADDRESS:AS:PASSWORD:MULTIHOP:PORT. IPv6 addresses are in brackets, and "unnumbered:" is
// before the name of an interface.
func (k *kubeVIP) addPeer(m *Source, text string) error {
	var p BGPPeer
	rest, unnumbered := strings.CutPrefix(text, "unnumbered:")
	address, rest, _ := strings.Cut(rest, ":")
	if inside, is := strings.CutPrefix(text, "["); is {
		address, rest, _ = strings.Cut(inside, "]:")
	}
	p.object, p.Spec.PeerAddress = ofKubeVIP(address), address
	if unnumbered {
		p.Spec.PeerAddress, p.Spec.Interface, p.Spec.DynamicASN = "", address, "external"
	}
	fields := append(strings.Split(rest, ":"), "", "", "", "")
	number := func(text, otherwise string) (n int64) {
		n, err := strconv.ParseInt(cmp.Or(text, otherwise), 10, 64)
		if err != nil {
			m.remark(p.object, "has %q in place of a number", text)
		}
		return n
	}
	if fields[0] == "" && !unnumbered {
		return fmt.Errorf("%s has no AS", address)
	}
	if fields[0] != "" {
		p.Spec.DynamicASN, p.Spec.PeerASN = "", number(fields[0], "")
	}
	p.Spec.Password, p.Spec.EBGPMultiHop, p.Spec.PeerPort = fields[1], fields[2] == "true", int32(number(fields[3], "0")) //nolint:gosec // a port
	p.Spec.MyASN, p.Spec.SourceAddress = number(k.environment["bgp_as"], "65000"), k.environment["bgp_sourceip"]
	p.Spec.HoldTime, p.Spec.KeepaliveTime = duration(number(k.environment["bgp_hold_time"], "0")), duration(number(k.environment["bgp_keepalive_interval"], "0"))
	m.Peers = append(m.Peers, p)
	return nil
}
