package v2

// RouteAttributes are what the routes to the addresses of a group say of
// themselves to routers, beside where they lead. They have an effect on
// addresses that the BGP speaker announces: those on the dummy interface.
//
// A Service has the last word on each of them by its annotations. Where one
// route leads to addresses of several Services, because it is as wide as the
// subnet, it says what belongs to the lowest of them that says anything.
type RouteAttributes struct {
	// communities are BGP communities (RFC 1997), such as 65000:100, that
	// routers can tell the routes of this group by. Default: none.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Communities []Community `json:"communities,omitempty"`

	// largeCommunities are the same with three numbers of 32 bits (RFC 8092),
	// such as 4200000000:1:100. Default: none.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	LargeCommunities []LargeCommunity `json:"largeCommunities,omitempty"`

	// med is the multi-exit discriminator: of two ways into the same
	// neighbouring AS routers take the one with the lower number. Default:
	// none, which most routers take for 0.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	// +optional
	MED *int64 `json:"med,omitempty"`

	// localPreference is told to neighbours of the same AS only: they prefer
	// the route with the higher number. Default: 100.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	// +optional
	LocalPreference *int64 `json:"localPreference,omitempty"`
}

// Community is two numbers of 16 bits.
//
// +kubebuilder:validation:MaxLength=11
// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,5}:[0-9]{1,5}$') && self.split(':').all(number, int(number) <= 65535)",message="communities must hold two numbers of 0 to 65535 each, such as 65000:100; for an AS above 65535 use largeCommunities"
type Community string

// LargeCommunity is three numbers of 32 bits.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,10}:[0-9]{1,10}:[0-9]{1,10}$') && self.split(':').all(number, int(number) <= 4294967295)",message="largeCommunities must hold three numbers of 0 to 4294967295 each, such as 4200000000:1:100"
type LargeCommunity string
