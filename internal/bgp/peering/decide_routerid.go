package peering

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"
)

// Sources of router IDs.
const (
	RouterIDExplicit = "explicit"
	RouterIDTemplate = "template"
	RouterIDNodeIPv4 = "node-ipv4"
	RouterIDHash     = "hash-from-node-name"
)

const defaultRouterIDPool = "10.0.0.0/8"

// routerID finds the node's router ID.
func (r *reader) routerID(field string) {
	pool, poolOK := r.routerIDPool(field)
	text := r.spec.Global.RouterID
	field += ".routerID"
	switch {
	case text == "":
		r.automaticID(field, pool, poolOK)
	case strings.Contains(text, "$"):
		r.templateID(field, text)
	default:
		r.d.RouterIDSource = RouterIDExplicit
		id, err := netip.ParseAddr(text)
		if err != nil || !isRouterID(id) {
			r.fatal(field, ReasonRouterID, badRouterID, quote(text))
			return
		}
		r.d.State.Global.RouterID = id
	}
}

const badRouterID = "%s is not a router ID: write an IPv4 address, neither loopback, link-local nor multicast," +
	" or ${NODE_IP}, ${NODE_EXTERNAL_IP}, ${node.annotations['key']} or ${node.labels['key']}, or nothing"

func isRouterID(a netip.Addr) bool {
	return a.Is4() && !a.IsUnspecified() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsMulticast() &&
		a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// routerIDPool reads the pool of router IDs for nodes without an IPv4 address.
func (r *reader) routerIDPool(field string) (netip.Prefix, bool) {
	text := r.spec.Global.RouterIDPool
	if text == "" {
		text = defaultRouterIDPool
	}
	pool, err := netip.ParsePrefix(text)
	if err != nil || !pool.Addr().Is4() || pool.Bits() > 24 {
		r.note(field+".routerIDPool", ReasonParseError,
			"%s is not a pool of router IDs: write an IPv4 network of /24 or larger, such as 10.255.0.0/16", quote(text))
		return netip.Prefix{}, false
	}
	return pool.Masked(), true
}

// automaticID uses the node's own address, or one that is computed from its name.
func (r *reader) automaticID(field string, pool netip.Prefix, poolOK bool) {
	if id, ok := firstRouterID(r.node.InternalIPs); ok {
		r.d.RouterIDSource, r.d.State.Global.RouterID = RouterIDNodeIPv4, id
		return
	}
	r.d.RouterIDSource = RouterIDHash
	if !poolOK {
		r.unresolved(field, "the node has no internal IPv4 address, and routerIDPool cannot be used")
		return
	}
	id := hashed(r.node.Name, pool)
	if !isRouterID(id) {
		r.unresolved(field, "the node has no internal IPv4 address, and "+id.String()+
			", which its name leads to in routerIDPool, cannot be a router ID")
		return
	}
	r.d.State.Global.RouterID = id
}

// templateID uses the node's addresses, annotations or labels.
func (r *reader) templateID(field, text string) {
	r.d.RouterIDSource = RouterIDTemplate
	switch text {
	case nodeIP, "${NODE_IPV4}":
		r.addressID(field, r.node.InternalIPs, "internal")
		return
	case "${NODE_EXTERNAL_IP}":
		r.addressID(field, r.node.ExternalIPs, "external")
		return
	}
	t, ok := templateOf(text)
	if !ok {
		r.fatal(field, ReasonRouterID, badRouterID, quote(text))
		return
	}
	value, ok := t.value(r.node)
	if !ok {
		r.unresolved(field, t.missing(r.node, "192.0.2.10"))
		return
	}
	id, err := netip.ParseAddr(value)
	if err != nil || !isRouterID(id) {
		r.unresolved(field, t.wrong(r.node, value, "an IPv4 address that can be a router ID", "192.0.2.10"))
		return
	}
	r.d.State.Global.RouterID = id
}

func (r *reader) addressID(field string, addresses []netip.Addr, kind string) {
	id, ok := firstRouterID(addresses)
	if !ok {
		r.unresolved(field, "the node has no "+kind+" IPv4 address")
		return
	}
	r.d.State.Global.RouterID = id
}

// unresolved reports a problem of this node alone.
func (r *reader) unresolved(field, why string) {
	r.add(Problem{Field: field, Reason: ReasonRouterID, Message: "there is no router ID: " + why, Fatal: true, Here: true})
}

func firstRouterID(addresses []netip.Addr) (netip.Addr, bool) {
	i := slices.IndexFunc(addresses, isRouterID)
	if i < 0 {
		return netip.Addr{}, false
	}
	return addresses[i], true
}

// hashed returns the address in pool for a name, but never the first or the last address of pool.
// The hash must stay FNV-1a, so that a node keeps its router ID.
func hashed(name string, pool netip.Prefix) netip.Addr {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	size := uint64(1) << (32 - pool.Bits())
	id := pool.Addr().As4()
	n := binary.BigEndian.Uint32(id[:]) + uint32(uint64(h.Sum32())%(size-2)) + 1
	binary.BigEndian.PutUint32(id[:], n)
	return netip.AddrFrom4(id)
}
