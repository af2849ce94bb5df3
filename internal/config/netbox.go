package config

import (
	"cmp"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/ipam"
)

const (
	// defaultTenant is whose reserved addresses are used, as in earlier versions.
	defaultTenant = "ipam-purelb"
	// defaultField is the custom field for the keys of claims.
	defaultField = "purelb_claim"
	// defaultStatus is that of addresses which are made.
	defaultStatus = "active"
)

// defaultToken is where earlier versions had the API token.
var defaultToken = SecretKey{Name: "netbox-client", Key: "user-token"}

// netbox reads a group of a NetBox server.
func (r *reading) netbox(spec v2.NetboxSpec) {
	r.group.Announce = ipam.AnnounceRemote
	r.group.Backend = "NetBox"
	r.group.Masks = r.masks("spec.netbox.aggregation", spec.Aggregation)
	token := defaultToken
	token.Namespace = r.sg.Namespace
	r.backend = &Backend{NetBox: &NetBox{
		URL:      spec.URL,
		Token:    token,
		Reserved: true,
		Tenant:   cmp.Or(spec.Tenant, defaultTenant),
		Field:    defaultField,
		Status:   defaultStatus,
	}}
}
