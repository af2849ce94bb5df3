package v2

// Pools are the ranges of a group that PureLB allocates from by itself. A
// Service gets one address per IP family that it asks for, the lowest free one
// of the first range that has any: the ranges of the lists in their order, then
// the single one. No two ranges of a cluster may overlap.
type Pools struct {
	// v4pool is a range of IPv4 addresses, tried after v4pools.
	// +optional
	V4Pool *AddressPool `json:"v4pool,omitempty"`

	// v6pool is a range of IPv6 addresses, tried after v6pools.
	// +optional
	V6Pool *AddressPool `json:"v6pool,omitempty"`

	// v4pools are ranges of IPv4 addresses, in the order in which they are
	// tried.
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +optional
	V4Pools []AddressPool `json:"v4pools,omitempty"`

	// v6pools are ranges of IPv6 addresses, in the order in which they are
	// tried.
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +optional
	V6Pools []AddressPool `json:"v6pools,omitempty"`

	// multiPool gives a Service one address of every range instead of one per
	// family. Default: false. Not in effect in this version: a group that sets
	// it is used without, and its condition says so.
	// +optional
	MultiPool bool `json:"multiPool,omitempty"`

	// balancePools takes an address from the range with the fewest addresses in
	// use instead of the first range that has a free one. Default: false.
	// Cannot be combined with multiPool. Not in effect in this version: a group
	// that sets it is used without, and its condition says so.
	// +optional
	BalancePools bool `json:"balancePools,omitempty"`
}

// AddressPool is a range of addresses of one subnet.
type AddressPool struct {
	// pool is the range: either first and last address, as in
	// "192.168.1.100-192.168.1.150", or a CIDR, as in "2001:db8::100/120",
	// which runs from the address as written to the last one of the CIDR.
	// Network, broadcast and IPv6 subnet-router anycast addresses of the subnet
	// are not handed out unless the range is written as first and last address.
	// It must lie inside the subnet; otherwise the group is not accepted.
	// +required
	Pool Range `json:"pool"`

	// subnet is the network that the addresses belong to, as a CIDR. Addresses
	// of a subnet that a node is connected to are local to that node.
	// +required
	Subnet Subnet `json:"subnet"`

	// aggregation is the mask with which addresses are put on the dummy
	// interface, and so what routers learn: "default" is the mask of the
	// subnet, "/32" (IPv4) or "/128" (IPv6) a route for each address. Where an
	// address is local this has no effect: it gets the mask of the node's
	// interface. Default: "default".
	// +optional
	Aggregation Aggregation `json:"aggregation,omitempty"`
}

// Single is the oldest way to write the range of a local group. Its family is
// that of the addresses, and it cannot be combined with another range of that
// family. New groups use v4pool and v6pool.
//
// +kubebuilder:validation:XValidation:rule="has(self.subnet) == has(self.pool)",message="subnet and pool belong together: give both or none"
// +kubebuilder:validation:XValidation:rule="!has(self.aggregation) || has(self.pool)",message="aggregation at this level belongs to subnet and pool beside it: give them too, or put it into the range that it is meant for"
type Single struct {
	// pool is a range of addresses, in the same notation as that of v4pool.
	// Required with subnet.
	// +optional
	Pool Range `json:"pool,omitempty"`

	// subnet is the network that the addresses of pool belong to, as a CIDR.
	// Required with pool.
	// +optional
	Subnet Subnet `json:"subnet,omitempty"`

	// aggregation is the mask with which addresses are put on the dummy
	// interface, in the same notation as that of v4pool. Default: "default".
	// +optional
	Aggregation Aggregation `json:"aggregation,omitempty"`
}

// FlatForm is the way in which the first generation wrote a group, without
// local: name, subnet, pool and aggregation directly in spec. Its addresses
// are announced like those of a local group with announce "auto".
//
// +kubebuilder:validation:XValidation:rule="!has(self.name) || has(self.pool)",message="name belongs to the flat form: give subnet and pool beside it, or remove it (a group is called by its metadata.name)"
type FlatForm struct {
	// name is a second name for the group, by which annotations of Services
	// can call it, and which "purelb.io/allocated-from" shows. It must not be
	// the name of another group: otherwise it is not in effect, and the
	// condition Accepted says so. Default: none.
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^\\\\s,]+$')",message="name must be one word without spaces and commas, such as localaddrange"
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`

	Single `json:",inline"`
}

// LocalOptions are what can be set for local addresses only.
type LocalOptions struct {
	// skipIPv6DAD adds IPv6 addresses without duplicate address detection:
	// they work about a second earlier, and an address that some other host
	// uses already is not noticed. Default: false.
	// +optional
	SkipIPv6DAD bool `json:"skipIPv6DAD,omitempty"`
}

// Boundary ties a group to namespaces.
//
// +kubebuilder:validation:XValidation:rule="!has(self.enforceNamespaces) || !self.enforceNamespaces || (has(self.namespaces) && size(self.namespaces) > 0)",message="enforceNamespaces needs namespaces: list at least one namespace"
// +kubebuilder:validation:XValidation:rule="!has(self.namespaceDefault) || !self.namespaceDefault || (has(self.namespaces) && size(self.namespaces) > 0)",message="namespaceDefault needs namespaces: list at least one namespace"
type Boundary struct {
	// namespaces are those whose Services get their addresses from this group
	// when they do not name one. Default: none. Not in effect in this version:
	// a group that sets it is used when a Service names it or when it is called
	// "default", and its condition says so.
	// +kubebuilder:validation:MaxItems=1024
	// +listType=atomic
	// +optional
	Namespaces []Namespace `json:"namespaces,omitempty"`

	// enforceNamespaces keeps Services of other namespaces out of this group,
	// and those of the listed namespaces out of all other groups. Requires
	// namespaces. Default: false. Not in effect in this version: as a fence
	// that does not hold would be a hole, a group that sets it is not accepted.
	// +optional
	EnforceNamespaces bool `json:"enforceNamespaces,omitempty"`

	// namespaceDefault makes this the group of choice where several list the
	// same namespace. Requires namespaces. Default: false. Not in effect in
	// this version, and the condition says so.
	// +optional
	NamespaceDefault bool `json:"namespaceDefault,omitempty"`
}

// Range is a range of addresses: "from-to" or a CIDR.
//
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:XValidation:rule="self.matches('^ *[0-9A-Fa-f:.]+(/[0-9]{1,3}| *- *[0-9A-Fa-f:.]+) *$')",message="pool must be a range such as 192.168.1.100-192.168.1.150 or a CIDR such as 2001:db8::100/120; write a single address as 192.168.1.5/32"
type Range string

// Subnet is a network as a CIDR.
//
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="self.matches('^ *[0-9A-Fa-f:.]+/[0-9]{1,3} *$')",message="subnet must be a CIDR such as 192.168.1.0/24 or 2001:db8::/64"
type Subnet string

// Aggregation is "default" or a mask from /8 to /128.
//
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:XValidation:rule="self.matches('^(default|/([89]|[1-9][0-9]|1[01][0-9]|12[0-8]))?$')",message="aggregation must be default (the mask of the subnet) or a mask with its slash, /8 to /32 for IPv4 and /8 to /128 for IPv6"
type Aggregation string

// Namespace is the name of a namespace.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespaces must hold names of namespaces: lower-case letters, digits and '-'; patterns such as * are not possible"
type Namespace string
