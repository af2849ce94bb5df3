package v2

// NetboxSpec is a group of addresses that a NetBox server hands out.
type NetboxSpec struct {
	// url is the base URL of the NetBox server, such as
	// "https://netbox.example.com/".
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^\\\\s/]+')",message="url must be the base URL of the NetBox server, such as https://netbox.example.com/"
	// +required
	URL string `json:"url"`

	// tenant is the slug of the NetBox tenant whose addresses are used.
	// Default: "ipam-purelb".
	// +kubebuilder:default=ipam-purelb
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Tenant string `json:"tenant,omitempty"`

	// aggregation is the mask with which addresses are put on the dummy
	// interface, in the same notation as that of a pool. Default: "default",
	// the mask of the address in NetBox.
	// +optional
	Aggregation Aggregation `json:"aggregation,omitempty"`
}

// ExternalSpec is a group of addresses that another program hands out.
type ExternalSpec struct {
	// provider is the name of that program, for people: it is shown in the
	// group's status.
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
}
