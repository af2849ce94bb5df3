package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
)

const (
	// NetBoxField is the default of the custom field for the keys of claims.
	NetBoxField = "purelb_claim"
	// NetBoxTenant is the default of the tenant whose reserved addresses are used, as in earlier
	// versions.
	NetBoxTenant = "ipam-purelb"
	// GlobalVRF means the table without a VRF.
	GlobalVRF = "global"
	// defaultStatus is the status of created addresses.
	defaultStatus = "active"
)

// netbox reads a group of a NetBox server.
func (r *reading) netbox(spec v2.NetboxSpec) {
	const field = "spec.netbox"
	r.group.Announce = announceOfBackend(spec.Announce)
	r.group.Backend = "NetBox"
	r.group.Masks = masks(spec.Aggregation)
	n := r.netBoxOf(field, spec)
	// Earlier versions used the same Secret and key.
	n.Token = r.secret(spec.TokenSecret, "netbox-client", "user-token")
	n.CA = r.secret(spec.CASecret, "", "ca.crt")
	r.backend = &Backend{NetBox: &n}
}

// netBoxOf reads what spec says about NetBox itself. field is the path of spec.
func (f *findings) netBoxOf(field string, spec v2.NetboxSpec) NetBox {
	n := NetBox{
		URL:      spec.URL,
		Reserved: spec.Mode == "reserved" || spec.Mode == "" && len(spec.Parents) == 0,
		Parents:  f.parents(field+".parents", spec.Parents),
		Tenant:   spec.Tenant,
		Field:    cmp.Or(spec.Field, NetBoxField),
		Status:   cmp.Or(string(spec.Status), defaultStatus),
		Role:     string(spec.Role),
	}
	for _, tag := range spec.Tags {
		n.Tags = append(n.Tags, string(tag))
	}
	if n.Reserved {
		n.Tenant = cmp.Or(n.Tenant, NetBoxTenant)
	}
	return n
}

// secret returns the Secret value that written names, with name and key as defaults.
func (r *reading) secret(written *v2.SecretKey, name, key string) SecretKey {
	if written != nil {
		name, key = cmp.Or(written.Name, name), cmp.Or(written.Key, key)
	}
	if name == "" {
		return SecretKey{}
	}
	return SecretKey{Namespace: r.sg.Namespace, Name: name, Key: key}
}

// parents reads prefixes and IP ranges of NetBox. A group cannot be used if it has none that PureLB
// can find.
func (f *findings) parents(field string, written []v2.NetboxParent) []NetBoxParent {
	var parents []NetBoxParent
	for i, w := range written {
		at := fmt.Sprintf("%s[%d]", field, i)
		p, ok := f.parent(at, w)
		if !ok {
			continue
		}
		if before := slices.Index(parents, p); before >= 0 {
			f.refuse(ReasonParseError, at, "this is there once more above: remove one of them")
			continue
		}
		parents = append(parents, p)
	}
	if len(written) > 0 && len(parents) == 0 && !f.refused() {
		f.refuse(ReasonNotSupported, field, "no prefix or IP range of NetBox is left, so PureLB cannot make addresses: name at least one by its id, or by its cidr or start")
	}
	return parents
}

// parent reads one parent.
func (f *findings) parent(field string, w v2.NetboxParent) (p NetBoxParent, ok bool) {
	switch {
	case w.PrefixID != 0:
		return NetBoxParent{ID: w.PrefixID}, true
	case w.RangeID != 0:
		return NetBoxParent{Range: true, ID: w.RangeID}, true
	case w.Prefix != nil:
		return f.prefix(field+".prefix", *w.Prefix)
	case w.Range != nil:
		return f.iprange(field+".range", *w.Range)
	}
	return p, false
}

// prefix reads the description of a prefix.
func (f *findings) prefix(field string, w v2.NetboxPrefix) (p NetBoxParent, ok bool) {
	if !f.described(field, w.CIDR, "prefixID", "cidr", w.NetboxTraits, w.Site) {
		return p, false
	}
	prefix, err := addr.ParseCIDR(w.CIDR)
	switch {
	case err != nil:
		f.refuse(ReasonParseError, field+".cidr", "%s", err)
		return p, false
	case prefix != prefix.Masked():
		f.refuse(ReasonParseError, field+".cidr", "%s has bits after its mask: write %s", addr.Quote(w.CIDR), prefix.Masked())
		return p, false
	}
	return NetBoxParent{Prefix: prefix, VRF: w.VRF}, true
}

// iprange reads the description of an IP range.
func (f *findings) iprange(field string, w v2.NetboxRange) (p NetBoxParent, ok bool) {
	if !f.described(field, w.Start, "rangeID", "start", w.NetboxTraits, "") {
		return p, false
	}
	start, err := netip.ParseAddr(w.Start)
	if err != nil || start.Zone() != "" || start.Is4In6() {
		f.refuse(ReasonParseError, field+".start", "%s is not an IP address: write the first one of the IP range, such as 192.0.2.10", addr.Quote(w.Start))
		return p, false
	}
	return NetBoxParent{Range: true, Start: start, VRF: w.VRF}, true
}

// described reports whether a description has the place that it needs: a CIDR, or the first address
// of an IP range. It warns of everything that earlier versions compared. id and place name the
// fields to use.
func (f *findings) described(field, given, id, place string, by v2.NetboxTraits, site string) bool {
	var unsupported []string
	for _, w := range []struct{ name, value string }{{"role", by.Role}, {"tag", by.Tag}, {"tenant", by.Tenant}, {"site", site}} {
		if w.value != "" {
			unsupported = append(unsupported, w.name)
		}
	}
	names := strings.Join(unsupported, ", ")
	switch {
	case given != "" && names != "":
		f.warn(ReasonNotSupported, field, "not supported, and not compared: %s; only %s and vrf count; remove the rest, or write %s", names, place, id)
	case given == "" && (names != "" || by.VRF != ""):
		f.warn(ReasonNotSupported, field, "this is left out, because NetBox is not searched by %s: write %s, or %s and vrf", cmp.Or(names, "vrf alone"), id, place)
	case given == "":
		f.refuse(ReasonParseError, field, "this describes nothing: write %s, or %s and vrf", id, place)
	}
	return given != ""
}
