package v2

// NetboxSpec is a group of addresses that a NetBox server manages.
//
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'prefix' || (has(self.parents) && size(self.parents) > 0)",message="mode prefix makes addresses in prefixes and IP ranges of NetBox: name at least one in parents"
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'reserved' || !has(self.parents) || size(self.parents) == 0",message="mode reserved takes the addresses that NetBox has reserved for the tenant: remove parents, or set mode to prefix"
// +kubebuilder:validation:XValidation:rule="(has(self.parents) && size(self.parents) > 0) || (has(self.mode) && self.mode == 'prefix') || !(has(self.status) || has(self.role) || has(self.tags))",message="status, role and tags are for addresses that PureLB makes, and in mode reserved it makes none: remove them, or name parents"
type NetboxSpec struct {
	// url is the base URL of the NetBox server, such as
	// "https://netbox.example.com/". The allocator takes a proxy from its
	// environment.
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^\\\\s/]+')",message="url must be the base URL of the NetBox server, such as https://netbox.example.com/"
	// +kubebuilder:validation:XValidation:rule="!self.matches('[@?#]')",message="url must have no user, query or fragment: the token for NetBox is in a Secret, see tokenSecret"
	// +required
	URL string `json:"url"`

	// mode says where the addresses come from. "prefix": PureLB creates and
	// deletes addresses in the prefixes and IP ranges of parents. "reserved":
	// NetBox has addresses with the status reserved for the tenant; PureLB sets
	// the status to active, and back. Default: "prefix" if there are parents,
	// otherwise "reserved", as in earlier versions.
	// +kubebuilder:validation:Enum=reserved;prefix
	// +optional
	Mode string `json:"mode,omitempty"`

	// parents are the prefixes and IP ranges of NetBox in which PureLB creates
	// addresses, in this order. An IP range is better than a prefix: in a prefix,
	// NetBox gives addresses without regard to the prefixes inside it. Each
	// parent must be in one ServiceGroup only. Default: none.
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	// +optional
	Parents []NetboxParent `json:"parents,omitempty"`

	// tenant is the slug of a tenant of NetBox. In mode reserved, PureLB uses the
	// addresses of this tenant; default: "ipam-purelb". In mode prefix, PureLB
	// sets it on the addresses that it creates; default: none.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Tenant string `json:"tenant,omitempty"`

	// field is the name of the custom field in which IP addresses of NetBox have
	// the key of the claim. The key names the holder of the address: the cluster,
	// the Service and the family. PureLB creates the field if its token has the
	// permission. Default: "purelb_claim".
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]+(_[A-Za-z0-9]+)*$')",message="field must be the name of a custom field: letters, digits and single underscores"
	// +optional
	Field string `json:"field,omitempty"`

	// status is set on the addresses that PureLB creates. Default: "active".
	// +optional
	Status NetboxSlug `json:"status,omitempty"`

	// role is set on the addresses that PureLB creates, such as "vip". Default:
	// none.
	// +optional
	Role NetboxSlug `json:"role,omitempty"`

	// tags are slugs of tags that are set on the addresses that PureLB creates.
	// The tags must exist in NetBox. Default: none.
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	// +optional
	Tags []NetboxSlug `json:"tags,omitempty"`

	// tokenSecret names the value of a Secret with the API token, of version 1 or
	// 2. The Secret is in the namespace of the ServiceGroup, and the chart value
	// allocator.netbox.secrets must list its name. Default: the name
	// "netbox-client" and the key "user-token".
	// +optional
	TokenSecret *SecretKey `json:"tokenSecret,omitempty"`

	// caSecret names the value of a Secret with certificates in PEM that PureLB
	// trusts in addition to those of the system. PureLB finds it like
	// tokenSecret. The default of its key is "ca.crt". Default: none.
	// +kubebuilder:validation:XValidation:rule="has(self.name)",message="caSecret must name the Secret that has the certificates"
	// +optional
	CASecret *SecretKey `json:"caSecret,omitempty"`

	// announce says where the addresses are announced: "local" on one node of
	// the address's subnet, "remote" on the dummy interface of every node.
	// Default: "remote".
	// +kubebuilder:validation:Enum=local;remote
	// +optional
	Announce string `json:"announce,omitempty"`

	// aggregation is the mask of the addresses on the dummy interface: "default"
	// means a route for each address, /32 and /128. The mask of an address in
	// NetBox has no effect, because it is usually the mask of a whole subnet.
	// "/8" to "/32" are for IPv4, "/33" to "/128" for IPv6; each address of the
	// other family then has its own route. Default: "default".
	// +optional
	Aggregation NetboxAggregation `json:"aggregation,omitempty"`

	Withdrawal `json:",inline"`
}

// NetboxParent is a prefix or an IP range of NetBox, by its id or by a
// description. A description must match one object of NetBox. Otherwise the
// group gives no addresses, and its conditions list the matching objects.
//
// +kubebuilder:validation:XValidation:rule="[has(self.prefixID), has(self.rangeID), has(self.prefix), has(self.range)].filter(given, given).size() == 1",message="exactly one of prefixID, rangeID, prefix and range must be given"
type NetboxParent struct {
	// prefixID is the id of a prefix.
	// +kubebuilder:validation:Minimum=1
	// +optional
	PrefixID int64 `json:"prefixID,omitempty"`

	// rangeID is the id of an IP range.
	// +kubebuilder:validation:Minimum=1
	// +optional
	RangeID int64 `json:"rangeID,omitempty"`

	// prefix describes a prefix.
	// +optional
	Prefix *NetboxPrefix `json:"prefix,omitempty"`

	// range describes an IP range.
	// +optional
	Range *NetboxRange `json:"range,omitempty"`
}

// NetboxPrefix describes a prefix of NetBox by its CIDR, and by its VRF if
// several VRFs have it.
//
// +kubebuilder:validation:MinProperties=1
type NetboxPrefix struct {
	// cidr is the prefix itself, such as "192.0.2.0/24".
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9A-Fa-f:.]+/[0-9]{1,3}$')",message="cidr must be a CIDR such as 192.0.2.0/24 or 2001:db8::/64"
	// +optional
	CIDR string `json:"cidr,omitempty"`

	NetboxTraits `json:",inline"`

	// site is not supported: see role.
	// +kubebuilder:validation:MaxLength=100
	// +optional
	Site string `json:"site,omitempty"`
}

// NetboxRange describes an IP range of NetBox by its first address, and by its
// VRF if several VRFs have it.
//
// +kubebuilder:validation:MinProperties=1
type NetboxRange struct {
	// start is the first address of the IP range, such as "192.0.2.10".
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9A-Fa-f:.]+$')",message="start must be the first address of the IP range, without a mask, such as 192.0.2.10"
	// +optional
	Start string `json:"start,omitempty"`

	NetboxTraits `json:",inline"`
}

// NetboxTraits describe prefixes and IP ranges of NetBox.
type NetboxTraits struct {
	// vrf is the name or the route distinguisher of a VRF, or "global" for the
	// table without a VRF.
	// +kubebuilder:validation:MaxLength=100
	// +optional
	VRF string `json:"vrf,omitempty"`

	// role is not supported, and has no effect: use an id, or the CIDR or first
	// address.
	// +kubebuilder:validation:MaxLength=100
	// +optional
	Role string `json:"role,omitempty"`

	// tag is not supported: see role.
	// +kubebuilder:validation:MaxLength=100
	// +optional
	Tag string `json:"tag,omitempty"`

	// tenant is not supported: see role.
	// +kubebuilder:validation:MaxLength=100
	// +optional
	Tenant string `json:"tenant,omitempty"`
}

// NetboxSlug is the name of an object in the URLs of NetBox.
//
// +kubebuilder:validation:MaxLength=100
// +kubebuilder:validation:XValidation:rule="self.matches('^[-A-Za-z0-9_]+$')",message="this must be the slug that NetBox has for it: letters, digits, '-' and '_'"
type NetboxSlug string

// NetboxAggregation is "default" or a mask from /8 to /128.
//
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:XValidation:rule="self.matches('^(default|/([89]|[1-9][0-9]|1[01][0-9]|12[0-8]))?$')",message="aggregation must be default (a route for each address) or a mask with its slash: /8 to /32 for IPv4, /33 to /128 for IPv6"
type NetboxAggregation string

// SecretKey names a value of a Secret.
type SecretKey struct {
	// name is the name of the Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="name must be the name of a Secret: lower-case letters, digits, '-' and '.'"
	// +optional
	Name string `json:"name,omitempty"`

	// key is the key of the value in the Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._A-Za-z0-9]+$')",message="key must be a key of a Secret: letters, digits, '-', '_' and '.'"
	// +optional
	Key string `json:"key,omitempty"`
}

// ExternalSpec is a group of addresses that another program manages: an IPAM
// server in the pod of the allocator.
type ExternalSpec struct {
	// provider is the name of that program, for people. The group's status shows
	// it.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="provider must name the program that hands out the addresses"
	// +required
	Provider string `json:"provider"`

	// socket is the path of the Unix socket on which the program serves
	// purelb.ipam.v1.IPAM, as the allocator's container sees it. Default:
	// "/var/run/purelb/ipam.sock".
	// +kubebuilder:default=/var/run/purelb/ipam.sock
	// +kubebuilder:validation:MaxLength=107
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="socket must be an absolute path, such as /var/run/purelb/ipam.sock"
	// +optional
	Socket string `json:"socket,omitempty"`

	// announce says where the addresses are announced: "local" on one node of
	// the address's subnet, "remote" on the dummy interface of every node.
	// +kubebuilder:validation:Enum=local;remote
	// +required
	Announce string `json:"announce"`

	Withdrawal `json:",inline"`
}
