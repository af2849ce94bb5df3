package config

import (
	"cmp"
	"net/netip"
	"strconv"
	"strings"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
)

// AnnotationReleaseOrphans of a ServiceGroup lets PureLB release the addresses that its backend holds
// for no Service. Its value identifies these addresses, so that no others are released.
const AnnotationReleaseOrphans = "purelb.io/release-orphans"

// Backend says which system manages the addresses of a ServiceGroup, and how to
// reach it. Either External or NetBox is set.
type Backend struct {
	// Group is the Ref of the group.
	Group    string
	External *External
	NetBox   *NetBox
	// ReleaseOrphans identifies the addresses that the backend holds for no Service, and that a
	// person lets PureLB release. It is "" if there are none.
	ReleaseOrphans string
}

// External is an IPAM server that serves purelb.ipam.v1.IPAM.
type External struct {
	// Provider is the name of the server in messages.
	Provider string
	// Socket is the path of the Unix socket that it listens on.
	Socket string
}

// NetBox says which addresses of a NetBox server belong to a group.
type NetBox struct {
	URL string
	// Token is the Secret with the API token. CA is the Secret with certificates to trust in
	// addition to those of the system. Without such a Secret, the name of CA is empty.
	Token, CA SecretKey
	// Reserved uses addresses that have the status "reserved" for Tenant in NetBox.
	// Otherwise PureLB creates addresses in Parents.
	Reserved bool
	// Parents are tried in this order. A reserved group has none.
	Parents []NetBoxParent
	// Tenant is a slug: the tenant of the reserved addresses, or the tenant of the
	// addresses that PureLB creates. "" means none.
	Tenant string
	// Field is the name of the custom field for the keys of claims.
	Field string
	// Status, Role and Tags are set on the addresses that PureLB creates. Role and
	// Tags are slugs.
	Status, Role string
	Tags         []string
}

// NetBoxParent is a prefix or an IP range of NetBox: its id, or its first address or CIDR with the
// VRF.
type NetBoxParent struct {
	// Range says that it is an IP range.
	Range bool
	// ID is the id in NetBox. If it is set, no other field is.
	ID int64
	// Prefix is the CIDR of a prefix. Start is the first address of an IP range.
	Prefix netip.Prefix
	Start  netip.Addr
	// VRF is a name or a route distinguisher, or GlobalVRF. "" means any.
	VRF string
}

// ServerOf returns the same text for different URLs of the same server, as far as
// the URLs show that. Documents of earlier versions wrote /api at the end of some
// URLs.
func ServerOf(url string) string {
	url = strings.TrimSuffix(strings.TrimSuffix(url, "/"), "/api")
	scheme, rest, _ := strings.Cut(url, "://")
	host, path, _ := strings.Cut(rest, "/")
	return scheme + "://" + strings.ToLower(host) + "/" + path
}

// SecretKey names a value of a Secret.
type SecretKey struct {
	Namespace, Name, Key string
}

const (
	defaultSocket   = "/var/run/purelb/ipam.sock"
	defaultProvider = "IPAM server"
)

// external reads a group of an IPAM server.
func (r *reading) external(spec v2.ExternalSpec) {
	e := External{Provider: cmp.Or(strings.TrimSpace(spec.Provider), defaultProvider), Socket: cmp.Or(spec.Socket, defaultSocket)}
	r.group.Announce = announceOfBackend(spec.Announce)
	r.group.Backend = e.Provider
	r.backend = &Backend{External: &e}
}

// announceOfBackend reads where addresses of a backend are announced.
func announceOfBackend(text string) groups.Announce {
	if text == "local" {
		return groups.AnnounceLocal
	}
	return groups.AnnounceRemote
}

// masks reads the mask that addresses of a backend have on the dummy interface. A
// mask up to /32 is for IPv4, a longer one for IPv6. Without a mask, each address
// has the longest one. So it has for a mask so short that it would redirect most of a node's traffic.
func masks(aggregation v2.NetboxAggregation) map[addr.Family]int {
	const least = 8
	bits, err := strconv.Atoi(strings.TrimPrefix(string(aggregation), "/"))
	switch {
	case err != nil || bits < least || bits > addr.V6.Bits():
		return nil
	case bits <= addr.V4.Bits():
		return map[addr.Family]int{addr.V4: bits}
	}
	return map[addr.Family]int{addr.V6: bits}
}
