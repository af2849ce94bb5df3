package v2

// Pools are the ranges of a group from which PureLB allocates by itself. For each
// IP family that it asks for, a Service gets the lowest free address of the first
// range that has one. The ranges of the lists come first, in their order, then
// the single range. No two ranges of a cluster may overlap.
type Pools struct {
	// v4pool is a range of IPv4 addresses. It comes after v4pools.
	// +optional
	V4Pool *AddressPool `json:"v4pool,omitempty"`

	// v6pool is a range of IPv6 addresses. It comes after v6pools.
	// +optional
	V6Pool *AddressPool `json:"v6pool,omitempty"`

	// v4pools are ranges of IPv4 addresses, in the order in which PureLB tries
	// them.
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +optional
	V4Pools []AddressPool `json:"v4pools,omitempty"`

	// v6pools are ranges of IPv6 addresses, in the order in which PureLB tries
	// them.
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +optional
	V6Pools []AddressPool `json:"v6pools,omitempty"`

	// multiPool gives a Service one address of every range of its families,
	// instead of one per family. In a local group, PureLB skips a range while no
	// node is in its subnet. Default: false. The annotation
	// "purelb.io/multi-pool: false" of a Service turns it off.
	// +optional
	MultiPool bool `json:"multiPool,omitempty"`

	// allowMultiPool: false forbids Services to ask for one address of every
	// range by their annotation "purelb.io/multi-pool: true", unless multiPool is
	// true. Such a Service gets one address per family, and its condition says
	// so. Services that have several addresses keep them. Default: true.
	// +optional
	AllowMultiPool *bool `json:"allowMultiPool,omitempty"`

	// balancePools takes an address from the range with the fewest addresses in
	// use, instead of the first range with a free one. Default: false. It cannot
	// be combined with multiPool: a Service gets no address from a group with
	// both, unless its annotation "purelb.io/multi-pool" turns multiPool off (the
	// condition Accepted says so), and none if that annotation turns it on.
	// +optional
	BalancePools bool `json:"balancePools,omitempty"`
}

// AddressPool is a range of addresses of one subnet.
//
// +kubebuilder:validation:XValidation:rule="!(self.pool + '=' + self.subnet).matches('^[^:=]*[.][^:=]*=.*:|:.*=[^:]*[.][^:]*$')",message="pool and subnet must be of one family"
// +kubebuilder:validation:XValidation:rule="!isCIDR(self.subnet.trim()) || !(self.pool + self.subnet).matches('^([^:]*|[^.]*)$') || [cidr(self.subnet.trim())].all(s, self.pool.replace(' ', ' '.trim()).split('-', 2).all(p, isCIDR(p) ? [cidr(p)].all(c, s.containsIP(c.ip()) && (c.prefixLength() >= s.prefixLength() || c != c.masked())) : !isIP(p) || s.containsIP(ip(p))))",message="pool must lie inside subnet: make the range smaller or the subnet larger"
type AddressPool struct {
	// pool is the range: its first and its last address, as in
	// "192.168.1.100-192.168.1.150", or a CIDR, as in "2001:db8::100/120", which
	// begins with the address as written. It must lie inside subnet. The network,
	// broadcast and IPv6 subnet-router anycast addresses of subnet are left out,
	// except if the range is written as first and last address, or is virtual:
	// aggregation is /32 or /128, the group is not local, and no node is in the
	// subnet.
	// +required
	Pool Range `json:"pool"`

	// subnet is the network of the addresses, as a CIDR. If a node is connected
	// to this network, the addresses are local to that node.
	// +required
	Subnet Subnet `json:"subnet"`

	// aggregation is the mask of the routes that routers learn to remote
	// addresses. "default" is the mask of the subnet; "/32" (IPv4) or "/128"
	// (IPv6) gives each address its own route. Default: "default".
	// +optional
	Aggregation Aggregation `json:"aggregation,omitempty"`

	// exclude are addresses of pool that PureLB never hands out: ranges, CIDRs
	// (all of each) and single addresses, all inside pool. A Service that already
	// has one keeps it. Default: none.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Exclude []Exclusion `json:"exclude,omitempty"`

	// drain stops handing out addresses of this range, so that you can remove it
	// when no Service has one of them any more. Services keep their addresses.
	// Default: false.
	// +optional
	Drain bool `json:"drain,omitempty"`
}

// Single is the oldest notation for the range of a local group. Its family is the
// family of its addresses. The group cannot have another range of that family.
// New groups use v4pool and v6pool.
//
// +kubebuilder:validation:XValidation:rule="has(self.subnet) == has(self.pool)",message="subnet and pool belong together: give both or none"
// +kubebuilder:validation:XValidation:rule="!has(self.aggregation) || has(self.pool)",message="aggregation at this level belongs to subnet and pool beside it: give them too, or put it into the range that it is meant for"
// +kubebuilder:validation:XValidation:rule="!has(self.pool) || !has(self.subnet) || !(self.pool + '=' + self.subnet).matches('^[^:=]*[.][^:=]*=.*:|:.*=[^:]*[.][^:]*$')",message="pool and subnet must be of one family"
// +kubebuilder:validation:XValidation:rule="!has(self.pool) || !has(self.subnet) || !isCIDR(self.subnet.trim()) || !(self.pool + self.subnet).matches('^([^:]*|[^.]*)$') || [cidr(self.subnet.trim())].all(s, self.pool.replace(' ', ' '.trim()).split('-', 2).all(p, isCIDR(p) ? [cidr(p)].all(c, s.containsIP(c.ip()) && (c.prefixLength() >= s.prefixLength() || c != c.masked())) : !isIP(p) || s.containsIP(ip(p))))",message="pool must lie inside subnet: make the range smaller or the subnet larger"
type Single struct {
	// pool is a range of addresses, in the notation of v4pool. Required with
	// subnet.
	// +optional
	Pool Range `json:"pool,omitempty"`

	// subnet is the network of the addresses of pool, as a CIDR. Required with
	// pool.
	// +optional
	Subnet Subnet `json:"subnet,omitempty"`

	// aggregation is the mask of the addresses on the dummy interface, in the
	// notation of v4pool. Default: "default".
	// +optional
	Aggregation Aggregation `json:"aggregation,omitempty"`
}

// FlatForm is the notation of the first generation for a group, without local:
// name, subnet, pool and aggregation directly in spec. Its addresses are
// announced like those of a local group with announce "auto".
//
// +kubebuilder:validation:XValidation:rule="!has(self.name) || has(self.pool)",message="name belongs to the flat form: give subnet and pool beside it, or remove it (a group is called by its metadata.name)"
type FlatForm struct {
	// name is an additional name of the group. Annotations of Services can use
	// it, and "purelb.io/allocated-from" shows it. It must not be the name of
	// another group: otherwise it has no effect, and the condition Accepted says
	// so. Default: none.
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^\\\\s,]+$')",message="name must be one word without spaces and commas, such as localaddrange"
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`

	Single `json:",inline"`
}

// LocalOptions are options for local addresses only.
type LocalOptions struct {
	// skipIPv6DAD adds IPv6 addresses without duplicate address detection. They
	// work about a second earlier, but PureLB does not notice an address that
	// another host already uses. Default: false.
	// +optional
	SkipIPv6DAD bool `json:"skipIPv6DAD,omitempty"`

	// nodes are the nodes that should have the addresses: of those in the subnet
	// that are not being drained, one with the largest weight. An address that a
	// node has stays there, see rebalanceAfter. Default: all nodes are equal.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Nodes []NodeWeight `json:"nodes,omitempty"`

	// rebalanceAfter is how long a node must be able to have an address before
	// the address goes back to it, one after the other, as in "10m". Default:
	// addresses stay where they are.
	// +optional
	RebalanceAfter Duration `json:"rebalanceAfter,omitempty"`
}

// NodeWeight gives a weight to nodes.
type NodeWeight struct {
	// nodeSelector are the labels that a node must have.
	// +kubebuilder:validation:MinProperties=1
	// +required
	NodeSelector map[string]string `json:"nodeSelector"`

	// weight of the node. A node without one has 0. Of several, the largest counts.
	// Default: 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Weight int32 `json:"weight,omitempty"`
}

// Exclusions have few rules, because the API server limits the cost of all rules together. It
// estimates that cost, and assumes the worst of a text whose length it does not know: so rules
// split texts with a limit, and use neither map nor contains on the parts.
//
// CEL has no variables. A rule that needs one uses [VALUE].all(name, ...). The functions ip and cidr
// of CEL do not compare addresses: the rule about the order of a range compares IPv4 addresses as
// numbers, and the allocator checks the order of IPv6 addresses. The rule that pool must lie inside
// subnet leaves a few cases to the allocator: IPv6 addresses with dots, and a CIDR that is larger
// than its subnet but is written with an address inside it. ' '.trim() is an empty text, because
// gofmt changes two quotes in a comment.

// Range is a range of addresses: "from-to" or a CIDR.
//
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:XValidation:rule="self.matches('^ *[0-9A-Fa-f:.]+(/[0-9]{1,3}| *- *[0-9A-Fa-f:.]+) *$')",message="pool must be a range such as 192.168.1.100-192.168.1.150 or a CIDR such as 2001:db8::100/120; write a single address as 192.168.1.5/32"
// +kubebuilder:validation:XValidation:rule="self.contains(':') ? !self.matches('/(129|1[3-9][0-9]|[2-9][0-9]{2}|0[0-9])') : !self.matches('/(3[3-9]|[4-9][0-9]|[0-9]{3}|0[0-9]+) *$')",message="the mask must be from /0 to /32 for IPv4, and from /0 to /128 for IPv6"
// +kubebuilder:validation:XValidation:rule="!self.matches('^[^:]+-.*:|:.*-[^:]+$')",message="the first and the last address must be of one family"
// +kubebuilder:validation:XValidation:rule="!self.matches('^( *([0-9]{1,3}[.]){3}[0-9]{1,3} *(-|$)){2}$') || [self.replace('-', '.').replace(' ', ' '.trim()).split('.', 9)].all(n, ((int(n[0]) * 256 + int(n[1])) * 256 + int(n[2])) * 256 + int(n[3]) <= ((int(n[4]) * 256 + int(n[5])) * 256 + int(n[6])) * 256 + int(n[7]))",message="the range is reversed: write the lower address first"
type Range string

// Exclusion is a range of addresses, a CIDR or a single address.
//
// +kubebuilder:validation:MaxLength=96
// +kubebuilder:validation:XValidation:rule="self.matches('^ *[0-9A-Fa-f:.]+(/[0-9]{1,3}| *- *[0-9A-Fa-f:.]+)? *$')",message="exclude must hold ranges such as 192.168.1.100-192.168.1.110, CIDRs such as 192.168.1.128/28 or single addresses such as 192.168.1.5"
// +kubebuilder:validation:XValidation:rule="self.contains(':') ? !self.matches('/(129|1[3-9][0-9]|[2-9][0-9]{2}|0[0-9])') : !self.matches('/(3[3-9]|[4-9][0-9]|[0-9]{3}|0[0-9]+) *$')",message="the mask must be from /0 to /32 for IPv4, and from /0 to /128 for IPv6"
type Exclusion string

// Subnet is a network as a CIDR.
//
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="self.matches('^ *[0-9A-Fa-f:.]+/[0-9]{1,3} *$')",message="subnet must be a CIDR such as 192.168.1.0/24 or 2001:db8::/64"
// +kubebuilder:validation:XValidation:rule="self.contains(':') ? !self.matches('/(129|1[3-9][0-9]|[2-9][0-9]{2}|0[0-9])') : !self.matches('/(3[3-9]|[4-9][0-9]|[0-9]{3}|0[0-9]+) *$')",message="the mask must be from /0 to /32 for IPv4, and from /0 to /128 for IPv6"
type Subnet string

// Aggregation is "default" or a mask from /8 to /128.
//
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:XValidation:rule="self.matches('^(default|/([89]|[1-9][0-9]|1[01][0-9]|12[0-8]))?$')",message="aggregation must be default (the mask of the subnet) or a mask with its slash, /8 to /32 for IPv4 and /8 to /128 for IPv6"
type Aggregation string
