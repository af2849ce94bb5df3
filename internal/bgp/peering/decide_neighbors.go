package peering

import (
	"cmp"
	"net/netip"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
)

// group is a peer group of the configuration.
type group struct {
	layer
	// ok says that the group can be used. selected says that it is for this node. everywhere
	// says that it is for all nodes.
	ok, selected, everywhere bool
}

// selects reads a node selector. selected says that it selects this node, and ok that it is valid.
func (r *reader) selects(field string, s *metav1.LabelSelector) (selected, ok bool) {
	selected, err := Selects(s, r.node.Labels)
	if err != nil {
		return false, r.refuse(field, ReasonParseError, "%v: correct it, or remove it to select all nodes", err)
	}
	return selected, true
}

// peerGroups reads all peer groups, so that it also reports mistakes in groups without
// neighbors.
func (r *reader) peerGroups() {
	r.groups = make(map[string]group, len(r.spec.PeerGroups))
	r.template = true
	defer func() { r.template = false }()
	for i := range r.spec.PeerGroups {
		in := &r.spec.PeerGroups[i]
		field := at("spec.peerGroups", i)
		name := in.Config.PeerGroupName
		if name == "" {
			r.note(field+".config.peerGroupName", ReasonParseError, "the group has no name, and is not in use: write one")
			continue
		}
		if _, there := r.groups[name]; there {
			r.note(field+".config.peerGroupName", ReasonDuplicate, "an earlier group has the name %s, so this one is not in use: write another", quote(name))
			continue
		}
		r.begin()
		g := group{layer: layer{field, &in.Config.PeerConfig, &in.SessionOptions}, everywhere: in.NodeSelector == nil}
		g.selected, g.ok = r.selects(field+".nodeSelector", in.NodeSelector)
		r.groups[name] = g
		r.session(layers{g.layer, r.globalLayer()})
	}
}

// session reads the options that neighbors and groups have in common.
func (r *reader) session(ls layers) (Options, bool) {
	options, ok := r.options(ls)
	password, okPassword := r.password(ls)
	options.Password = password
	return options, ok && okPassword
}

// neighbors reads the named neighbors.
func (r *reader) neighbors() {
	r.d.Configured = len(r.spec.Neighbors)
	meant := 0
	for i := range r.spec.Neighbors {
		in := &r.spec.Neighbors[i]
		r.begin()
		m, selected, ok := r.neighbor(at("spec.neighbors", i), in)
		if !selected {
			continue
		}
		meant++
		if ok && (r.own(m.Address) || r.repeats(m)) {
			continue
		}
		if !ok || !r.single(m) {
			r.leaveOut(m, in)
			continue
		}
		r.nextHops(&m)
		r.oneHop(m)
		r.members = append(r.members, m)
	}
	if meant == 0 && len(r.spec.Neighbors) > 0 {
		r.here("spec.neighbors", ReasonNoMatchingNeighbors, "none of the neighbors is for this node, so it announces nothing")
	}
}

// repeats reports whether an earlier neighbor is equal to m. Two entries with different node selectors are
// how a neighbor is written that one or the other selects.
func (r *reader) repeats(m member) bool {
	return slices.ContainsFunc(r.members, func(o member) bool {
		o.Path, o.Policy, o.everywhere = m.Path, m.Policy, m.everywhere
		return reflect.DeepEqual(o, m)
	})
}

// neighbor reads a neighbor. selected says that this node should have it, and ok that its
// configuration is valid.
func (r *reader) neighbor(field string, in *bgpv1.Neighbor) (m member, selected, ok bool) {
	m.Path, m.group = field, in.Config.PeerGroup
	m.everywhere = in.NodeSelector == nil && in.Config.NeighborGateway == ""
	okWho := r.who(field+".config", in.Config, &m.Peer)
	selected, okSelector := r.selects(field+".nodeSelector", in.NodeSelector)
	ls := layers{{field, &in.Config.PeerConfig, &in.SessionOptions}}
	okGroup := true
	if name := in.Config.PeerGroup; name != "" {
		var g group
		if g, okGroup = r.group(field+".config.peerGroup", name); okGroup {
			ls = append(ls, g.layer)
			selected, m.everywhere = selected && g.selected, m.everywhere && g.everywhere
		}
	}
	r.elsewhere = !selected
	if okWho && selected && in.Config.NeighborGateway != "" {
		okWho = r.gateway(field+".config.neighborGateway", in.Config.NeighborGateway, &m)
	}
	ls = append(ls, r.globalLayer())
	var okSession bool
	m.Options, okSession = r.session(ls)
	if okGroup && m.ASN == 0 && !r.wrongASN(ls) {
		okSession = r.refuse(field+".config.peerAsn", ReasonParseError, "the number of the neighbor's AS is not known: write it here, or in its peer group")
	}
	m.Port = uint16(given(ls, 0, func(l layer) int32 { return value(l.options.Transport).RemotePort }))
	okVRF := r.outsideVRFs(field+".config.vrf", in.Config.VRF)
	m.AdminDown = in.Config.AdminDown
	okAddresses := true
	if gateway := in.Config.NeighborGateway != ""; okWho && (selected || !gateway) {
		r.alone = r.alone || gateway
		okAddresses = r.sameFamily(ls, m)
	}
	return m, selected, okWho && okSelector && okGroup && okSession && okVRF && okAddresses
}

// wrongASN reports whether there is an AS number that was refused.
func (r *reader) wrongASN(ls layers) bool {
	n, _ := firstSet(ls, func(l layer) bgpv1.PeerASN { return l.config.PeerASN })
	return n != 0
}

// who reads the address or the interface of a neighbor. The address of a gateway is found later,
// only on nodes with the neighbor.
func (r *reader) who(field string, in bgpv1.NeighborConfig, out *Peer) bool {
	written := 0
	for _, text := range []string{in.NeighborAddress, in.NeighborInterface, in.NeighborGateway} {
		if text != "" {
			written++
		}
	}
	switch {
	case written == 0:
		return r.refuse(field, ReasonParseError, "the neighbor has no address: write neighborAddress, neighborInterface or neighborGateway")
	case written > 1:
		return r.refuse(field, ReasonConflict, "neighborAddress, neighborInterface and neighborGateway each name a neighbor: write only one of them")
	case in.NeighborGateway != "":
		return true
	case in.NeighborInterface != "":
		if !isInterface(in.NeighborInterface) {
			return r.refuse(field+".neighborInterface", ReasonParseError, badInterface, quote(in.NeighborInterface))
		}
		out.Interface = in.NeighborInterface
		return true
	}
	field += ".neighborAddress"
	a, err := netip.ParseAddr(in.NeighborAddress)
	linkLocal := err == nil && a.Is6() && a.IsLinkLocalUnicast()
	switch {
	case err != nil || a.Is4In6() || a.IsMulticast() || a.IsUnspecified() || a.Zone() != "" && !linkLocal:
		return r.refuse(field, ReasonParseError, "%s is not the IP address of a neighbor: write one such as 192.0.2.1 or 2001:db8::1", quote(in.NeighborAddress))
	case linkLocal && a.Zone() == "":
		return r.refuse(field, ReasonParseError, "%s is valid on every interface: append the one that is meant, such as %s%%eth1", a, a)
	case a.Zone() != "" && !isInterface(a.Zone()):
		return r.refuse(field, ReasonParseError, badInterface, quote(a.Zone()))
	}
	out.Address = a
	return true
}

// group finds a peer group by its name.
func (r *reader) group(field, name string) (group, bool) {
	g, there := r.groups[name]
	switch {
	case !there:
		return g, r.refuse(field, ReasonPeerGroupMissing, "there is no group %s in spec.peerGroups", quote(name))
	case !g.ok:
		return g, r.refuse(field, ReasonPeerGroupMissing, "the group %s has a mistake (see %s)", quote(name), g.path)
	}
	return g, true
}

// outsideVRFs refuses a neighbor in a VRF. Without the VRF, the neighbor would get routes of the
// main table.
func (r *reader) outsideVRFs(field, vrf string) bool {
	return vrf == "" || r.refuse(field, ReasonNotSupported, noVRFs, "the neighbor is left out: remove vrf, and it gets the routes that all neighbors get")
}

// sameFamily refuses a source address that has another family than the sessions of m. Unnumbered
// sessions use IPv6.
func (r *reader) sameFamily(ls layers, m member) bool {
	if !m.LocalAddress.IsValid() || m.Address.Is4() == m.LocalAddress.Is4() {
		return true
	}
	_, from := firstSet(ls, func(l layer) string { return value(l.options.Transport).LocalAddress })
	return r.refuse(from.path+".transport.localAddress", ReasonConflict,
		"a session with %s cannot be from %s: write an address of the same family", m.Name(), m.LocalAddress)
}

// own reports whether a belongs to this node, which a full mesh also lists as a neighbor.
func (r *reader) own(a netip.Addr) bool {
	return a.IsValid() && (slices.Contains(r.node.InternalIPs, a) || slices.Contains(r.node.ExternalIPs, a))
}

// single refuses a neighbor that this node already has. If both entries are for some nodes
// only, other nodes may have just one of them.
func (r *reader) single(m member) bool {
	i := slices.IndexFunc(r.members, func(other member) bool { return other.Name() == m.Name() })
	if i < 0 {
		return true
	}
	return r.refuseBy(Problem{
		Field: m.Path + ".config", Reason: ReasonDuplicate, Here: !m.everywhere || !r.members[i].everywhere,
		Message: "an earlier neighbor is " + m.Name() + " too (see " + r.members[i].Path + "), so this one is left out: remove one of them",
	})
}

// leaveOut records a neighbor that this node should have, and why the neighbor is left out.
func (r *reader) leaveOut(m member, in *bgpv1.Neighbor) {
	name := cmp.Or(in.Config.NeighborAddress, m.Path)
	switch {
	case in.Config.NeighborAddress != "":
	case in.Config.NeighborInterface != "":
		name = "%" + in.Config.NeighborInterface
	case m.Address.IsValid():
		name = m.Address.String()
	case in.Config.NeighborGateway != "":
		name = "gateway " + in.Config.NeighborGateway
	}
	r.d.LeftOut = append(r.d.LeftOut, LeftOut{
		Name: name, Description: m.Description, ASN: m.ASN, Path: m.Path, Message: r.why,
	})
}
